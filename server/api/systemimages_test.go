package api

import (
	"slices"
	"testing"
)

// TestSystemImages: the versions of RKE1 are read by everybody who is logged in, each with its images by the names of the wire.
func TestSystemImages(t *testing.T) {
	b := newBench(t)
	administrated(b)
	_, ann := b.person("ann", "user-base")
	const at = "/v3/rkek8ssystemimages"
	list := as[typedCollection[typedSystemImage]](t, b.request("GET", at+"?"+listQ, ann, ""), 200)
	if i := slices.IndexFunc(list.Data, func(v typedSystemImage) bool { return v.Name == "v1.30.5-rancher1-1" }); i < 0 {
		t.Fatalf("versions %+v", list.Data)
	}
	one := as[typedSystemImage](t, b.request("GET", at+"/v1.30.5-rancher1-1", ann, ""), 200)
	if one.Type != "rkeK8sSystemImage" || one.ID != one.Name || one.Links["remove"] != "" || one.Links["update"] != "" {
		t.Errorf("%+v", one)
	}
	if is := one.SystemImages; is == nil || is.Kubernetes != "rancher/hyperkube:v1.30.5-rancher1" || is.Etcd == "" || is.NginxProxy == "" || is.CalicoFlexVol == "" || is.CoreDNSAutoscaler == "" {
		t.Errorf("images %+v", is)
	}
	schema := as[typedSchema](t, b.request("GET", "/v3/schemas/rkek8ssystemimage", ann, ""), 200)
	if schema.PluralName != "rkeK8sSystemImages" || !slices.Equal(schema.CollectionMethods, []string{"GET"}) || !slices.Equal(schema.ResourceMethods, []string{"GET"}) {
		t.Errorf("schema %+v", schema)
	}
	for _, c := range []struct {
		token, method, target string
		status                int
	}{
		{ann, "GET", at + "/v1.2.3-rancher1-1", 404},
		{b.admin, "DELETE", at + "/v1.30.5-rancher1-1", 405},
		{b.admin, "POST", at, 405},
		{"", "GET", at, 401},
	} {
		if r := b.request(c.method, c.target, c.token, "{}"); r.status != c.status {
			t.Errorf("%s %s: %d, want %d: %s", c.method, c.target, r.status, c.status, r.raw)
		}
	}
}
