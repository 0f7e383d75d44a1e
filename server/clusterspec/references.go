// The Secrets and ConfigMaps that a cluster refers to.

package clusterspec

import (
	"strings"

	"github.com/drover-project/drover/plans/objects"
)

// CloudConfig is the setting whose value may name a Secret, and SecretScheme how such a value begins.
const (
	CloudConfig  = "cloud-provider-config"
	SecretScheme = "secret://"
)

// CloudConfigSecret are the namespace and the name of the Secret that a value of cloud-provider-config names,
// secret://<namespace>:<name>; false for any other value.
//
// Source: rancher/rancher pkg/capr/planner/config.go.
func CloudConfigSecret(value any) (namespace, name string, ok bool) {
	text, _ := value.(string)
	reference, ok := strings.CutPrefix(text, SecretScheme)
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(reference, ":")
	return namespace, name, ok
}

// Objects are the keys of all Secrets and ConfigMaps that the spec of a cluster of that namespace refers to, sorted.
func (s Spec) Objects(namespace string) []string {
	if s.RKEConfig == nil {
		return nil
	}
	found := map[string]bool{}
	for _, files := range s.RKEConfig.MachineSelectorFiles {
		for _, source := range files.FileSources {
			if o, secret := source.Object(); o != nil {
				found[objects.KeyOf(kindOf(secret), namespace, o.Name)] = true
			}
		}
	}
	if r := s.RKEConfig.Registries; r != nil {
		for _, c := range r.Configs {
			for _, name := range []string{c.AuthConfigSecretName, c.TLSSecretName} {
				if name != "" {
					found[objects.KeyOf(objects.Secret, namespace, name)] = true
				}
			}
		}
	}
	if e := s.RKEConfig.ETCD; e != nil {
		if namespace, name, ok := e.S3.Credential(); ok {
			found[objects.KeyOf(objects.Secret, namespace, name)] = true
		}
	}
	cloud := func(config map[string]any) {
		if namespace, name, ok := CloudConfigSecret(config[CloudConfig]); ok {
			found[objects.KeyOf(objects.Secret, namespace, name)] = true
		}
	}
	cloud(s.RKEConfig.MachineGlobalConfig)
	for _, one := range s.RKEConfig.MachineSelectorConfig {
		cloud(one.Config)
	}
	return sortedKeys(found)
}

func kindOf(secret bool) string {
	if secret {
		return objects.Secret
	}
	return objects.ConfigMap
}

// Key is that of the object which the source names, in a cluster of that namespace; empty when it names none.
func (f FileSource) Key(namespace string) string {
	o, secret := f.Object()
	if o == nil {
		return ""
	}
	return objects.KeyOf(kindOf(secret), namespace, o.Name)
}
