// The type rkeK8sSystemImage of /v3: the versions of RKE1 that this server knows, each with its images.
// Terraform's provider lists it at its start, and takes no version of a cluster that is not in it.
//
// Wire source: rancher/rancher pkg/client/generated/management/v3 (RkeK8sSystemImage) of the releases up to 2.11;
// rancher/terraform-provider-rancher2 rancher2/config.go.

package management

import (
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
)

// SystemImages is the type, to be read; known are the versions, nil without any.
func SystemImages(known *versions.Data) Kind {
	return Kind{
		Schema: norman.Schema{ID: string(auth.RKEVersion), Plural: string(auth.RKEVersion) + "s", Fields: norman.Fields(map[string]norman.Field{
			"name": {Type: "string"}, "systemImages": {Type: "rkeSystemImages"},
		})},
		List: func(*route.Call) []norman.Object {
			var objects []norman.Object
			if known != nil {
				for _, version := range known.List() {
					if images, err := known.Images(version); err == nil {
						objects = append(objects, systemImage(version, images))
					}
				}
			}
			return objects
		},
		Get: func(_ *route.Call, id string) (norman.Object, bool) {
			if known == nil || !known.Known(id) {
				return norman.Object{}, false
			}
			images, err := known.Images(id)
			return systemImage(id, images), err == nil
		},
		Changed: func(*route.Call, subscribe.Change) (string, *norman.Object) { return "", nil }, // they change with the release alone
	}
}

// systemImage is a version with those of its images that it has.
func systemImage(version string, images config.SystemImages) norman.Object {
	return norman.Object{ID: version, Fixed: true, Kept: true, Fields: map[string]any{
		"name": version, "systemImages": images,
		"created": nil, "creatorId": nil, "labels": map[string]string{}, "annotations": map[string]string{},
	}}
}
