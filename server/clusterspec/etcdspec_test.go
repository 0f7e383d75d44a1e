package clusterspec

import "testing"

// TestVersionsThatTakeASecret: before them the keys of a bucket would stand in a file of each host.
func TestVersionsThatTakeASecret(t *testing.T) {
	for version, want := range map[string]bool{
		"v1.28.12+k3s1": false, "v1.28.13+rke2r1": true, "v1.29.7+k3s1": false, "v1.29.9+k3s1": true, "v1.30.3+rke2r1": false, "v1.30.4+k3s1": true,
		"v1.31.0+k3s1": true, "v1.34.4+k3s1": true, "v1.27.16+k3s1": false,
	} {
		if got := len((&ETCD{S3: &S3{Bucket: "harbour"}}).Faults(version)) == 0; got != want {
			t.Errorf("%s: %v", version, got)
		}
	}
}

func TestEnabled(t *testing.T) {
	for _, s := range []*S3{{Bucket: "b"}, {Endpoint: "e"}, {Folder: "f"}, {CloudCredentialName: "a:b"}, {Region: "r"}} {
		if !s.Enabled() {
			t.Errorf("%+v", s)
		}
	}
	for _, s := range []*S3{nil, {}, {Retention: 3, SkipSSLVerify: true}} {
		if s.Enabled() {
			t.Errorf("%+v", s)
		}
	}
}
