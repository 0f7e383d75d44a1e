package api_test

import (
	"slices"
	"testing"

	"github.com/drover-project/drover/test/apibed"
)

// TestSystemImages: the versions of RKE1 are read by everybody who is logged in, each with its images by the names of the wire.
func TestSystemImages(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	_, ann := b.Person("ann", "user-base")
	const at = "/v3/rkek8ssystemimages"
	list := as[typedCollection[typedSystemImage]](t, b.Request("GET", at+"?"+apibed.ListQ, ann, ""), 200)
	if i := slices.IndexFunc(list.Data, func(v typedSystemImage) bool { return v.Name == "v1.30.5-rancher1-1" }); i < 0 {
		t.Fatalf("versions %+v", list.Data)
	}
	one := as[typedSystemImage](t, b.Request("GET", at+"/v1.30.5-rancher1-1", ann, ""), 200)
	if one.Type != "rkeK8sSystemImage" || one.ID != one.Name || one.Links["remove"] != "" || one.Links["update"] != "" {
		t.Errorf("%+v", one)
	}
	if is := one.SystemImages; is == nil || is.Kubernetes != "rancher/hyperkube:v1.30.5-rancher1" || is.Etcd == "" || is.NginxProxy == "" || is.CalicoFlexVol == "" || is.CoreDNSAutoscaler == "" {
		t.Errorf("images %+v", is)
	}
	schema := as[typedSchema](t, b.Request("GET", "/v3/schemas/rkek8ssystemimage", ann, ""), 200)
	if schema.PluralName != "rkeK8sSystemImages" || !slices.Equal(schema.CollectionMethods, []string{"GET"}) || !slices.Equal(schema.ResourceMethods, []string{"GET"}) {
		t.Errorf("schema %+v", schema)
	}
	for _, c := range []struct {
		token, method, target string
		status                int
	}{
		{ann, "GET", at + "/v1.2.3-rancher1-1", 404},
		{b.Admin, "DELETE", at + "/v1.30.5-rancher1-1", 405},
		{b.Admin, "POST", at, 405},
		{"", "GET", at, 401},
	} {
		if r := b.Request(c.method, c.target, c.token, "{}"); r.Status != c.status {
			t.Errorf("%s %s: %d, want %d: %s", c.method, c.target, r.Status, c.status, r.Raw)
		}
	}
}
