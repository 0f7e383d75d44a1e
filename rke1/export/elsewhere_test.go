package export_test

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/export"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

func TestElsewhere(t *testing.T) {
	known := config.Versions{Default: data(t).Default(), Images: data(t).Images}
	for _, tc := range []struct {
		name   string
		change func(*state.Part)
		want   []string
	}{
		{"how hosts are reached", func(p *state.Part) {
			p.Config.SSHKeyPath, p.Config.Nodes[0].User, p.Config.Nodes[1].NodeName = "~/k", "ops", "c-abcde:m-1"
			p.Config.BastionHost.Address = "198.51.100.1"
		}, nil},
		{"the administrator's certificate", func(p *state.Part) { delete(p.Certificates, pki.Admin) }, nil},
		{"a version", func(p *state.Part) { p.Config.KubernetesVersion = "v1.30.4-rancher1-1" }, []string{"rkeConfig.kubernetesVersion"}},
		{"a key of Secrets", func(p *state.Part) { p.Encryption += "#" }, []string{"encryptionConfig"}},
		{"an authority", func(p *state.Part) {
			entry := p.Certificates[pki.CA]
			entry.KeyPEM = "other"
			p.Certificates[pki.CA] = entry
		}, []string{"certificatesBundle.kube-ca.keyPEM"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found := deployed(t, clusterText)
			tc.change(&found.Desired)
			var want []string
			for _, path := range tc.want {
				want = append(want, "desiredState."+path)
			}
			got, err := export.Elsewhere(deployed(t, clusterText), found, known)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUntar(t *testing.T) {
	files := made(t, deployed(t, clusterText), options(t)).Files
	var b bytes.Buffer
	if err := export.Tar(&b, files, birth); err != nil {
		t.Fatal(err)
	}
	got, err := export.Untar(bytes.NewReader(b.Bytes()))
	if err != nil || export.Complete(got) != nil || cmp.Diff(files, got) != "" {
		t.Fatalf("%v", err)
	}
	for length := range b.Len() { // a cut at a file's end is none that a tar shows
		if length%512 != 0 {
			continue
		}
		got, err := export.Untar(bytes.NewReader(b.Bytes()[:length]))
		if err == nil && export.Complete(got) == nil && length < b.Len()-1024 {
			t.Errorf("%d of %d bytes are taken for the whole", length, b.Len())
		}
	}
	files[0].Content = append([]byte("# "), files[0].Content...)
	if err := export.Complete(files); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("got %v", err)
	}
	for _, header := range []tar.Header{{Name: "../x", Typeflag: tar.TypeReg}, {Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := export.Untar(&b); err == nil || !strings.Contains(err.Error(), "is not a file without a directory") {
			t.Errorf("%s: got %v", header.Name, err)
		}
	}
}

func TestFaultyFilesAreMadeWhenAsked(t *testing.T) {
	s := deployed(t, clusterText)
	for _, p := range []*config.Cluster{s.Desired.Config, s.Current.Config} {
		p.Authentication.SANs = append(p.Authentication.SANs, "new.example.com")
	}
	o := options(t)
	if _, err := export.Make(s, o, birth); err == nil {
		t.Fatal("an export that changes a certificate was made")
	}
	o.Faulty = true
	e := made(t, s, o)
	if len(e.Findings) == 0 || len(e.Files) != 5 || !strings.Contains(e.Findings[0].String(), "kube-apiserver") {
		t.Errorf("%+v", e.Findings)
	}
}
