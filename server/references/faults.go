// What is wrong with what the document of a cluster names.

package references

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/snapshotbucket"
)

// Faults are sentences about the objects that the document of a cluster names: those of unusable, and about Secrets that are of no use
// for what they are named for. No value is repeated.
func Faults(c records.Cluster, find Lookup) []string {
	list := unusable(c, find)
	usable := Of(c, find)
	if _, ok := usable[CredentialOf(c)]; ok {
		if _, _, err := snapshotbucket.Of(c, usable); err != nil {
			list = append(list, err.Error()+"; no snapshot goes there before that is put right")
		}
	}
	list = append(list, oversized(c, usable)...)
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
					objects.Named(o.Key()), o.Type, is.field, host, strings.Join(is.types, ", ")))
			}
		}
	}
	return list
}

// oversized are sentences about files of Secrets and ConfigMaps with which the plan of a machine would be too large: those for all
// machines, and beside them those for some.
func oversized(c records.Cluster, usable map[string]objects.Object) (list []string) {
	rke := c.Spec.RKEConfig
	if rke == nil {
		return nil
	}
	size := func(files clusterspec.SelectorFiles) (sum int) {
		for _, source := range files.FileSources {
			if o, _ := source.Object(); o != nil {
				for _, item := range o.Items {
					sum += len(usable[source.Key(c.Namespace)].Data[item.Key])
				}
			}
		}
		return sum
	}
	all := 0
	for _, files := range rke.MachineSelectorFiles {
		if files.MachineLabelSelector == nil {
			all += size(files)
		}
	}
	for i, files := range rke.MachineSelectorFiles {
		total := all
		if files.MachineLabelSelector != nil {
			total += size(files)
		}
		if plan := clusterspec.PlanSize(rke, total); plan > clusterspec.MaxPlan {
			return append(list, fmt.Sprintf("spec.rkeConfig.machineSelectorFiles[%d]: with these files the plan of a machine has %d KiB, more than the %d KiB that a host can be given; its machines get no plan before there is less of them",
				i, plan>>10, clusterspec.MaxPlan>>10))
		}
	}
	return list
}
