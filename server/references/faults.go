// What is wrong with what the document of a cluster names.

package references

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/objects"
	"github.com/drover-project/drover/server/offsite"
	"github.com/drover-project/drover/server/records"
)

// Faults are sentences about the objects that the document of a cluster names: those of Unusable, and about Secrets that are of no use
// for what they are named for. No value is repeated.
func Faults(c records.Cluster, find Lookup) []string {
	list := Unusable(c, find)
	usable := Of(c, find)
	if _, ok := usable[credentialOf(c)]; ok {
		if _, _, err := offsite.Of(c, func(key string) (objects.Object, bool) { o, ok := usable[key]; return o, ok }); err != nil {
			list = append(list, err.Error()+"; no snapshot goes there before that is put right")
		}
	}
	if c.Spec.RKEConfig == nil || c.Spec.RKEConfig.Registries == nil {
		return list
	}
	configs := c.Spec.RKEConfig.Registries.Configs
	for _, host := range slices.Sorted(maps.Keys(configs)) {
		for _, is := range []struct {
			field, name string
			types       []string
		}{
			{"authConfigSecretName", configs[host].AuthConfigSecretName, []string{objects.AuthConfigSecret, objects.BasicAuthSecret, objects.DockerConfigSecret}},
			{"tlsSecretName", configs[host].TLSSecretName, []string{objects.TLSSecret}},
		} {
			o, ok := usable[objects.KeyOf(objects.Secret, c.Namespace, is.name)]
			if ok && is.name != "" && !slices.Contains(is.types, o.Type) {
				list = append(list, fmt.Sprintf("%s has the type %.80s, and %s of registry %s takes %s; its machines get no plan before that is put right",
					Named(o.Key()), o.Type, is.field, host, strings.Join(is.types, ", ")))
			}
		}
	}
	return list
}
