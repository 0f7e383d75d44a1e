// Clusters of the management API as Rancher keeps them.

package clusterspec

import "github.com/drover-project/drover/plans/strictyaml"

// usual are complaints about fields of package ofrancher whose value says what is so anyhow.
func usual(text *strictyaml.Document, meta Metadata) (all strictyaml.Errors) {
	for path, value := range map[string]string{"spec.displayName": meta.Name, "spec.dockerRootDir": "/var/lib/docker", "spec.fleetWorkspaceName": DefaultNamespace} {
		var given any
		if at, ok := text.At(path); ok && at.Decode(&given, strictyaml.Options{}) == nil && given == value {
			all = append(all, strictyaml.Error{Path: path})
		}
	}
	return all
}
