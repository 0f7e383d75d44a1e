package snapshotbucket_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/snapshotbucket"
	"github.com/drover-project/drover/test/s3server"
)

// cluster has a bucket, whose settings a person gave it who may read the credential.
func cluster(s clusterspec.S3) records.Cluster {
	namespace, _, _ := s.Credential()
	place := s.Place()
	return records.Cluster{
		Object: records.Object{Namespace: "fleet-default", Name: "harbour"}, ID: "c-m-harbour1",
		Granted: map[string]records.Granted{objects.KeyOf(objects.Secret, namespace, "cc-1"): {UID: "uid-1", Bucket: &place}},
		Spec:    clusterspec.Spec{RKEConfig: &clusterspec.RKEConfig{ETCD: &clusterspec.ETCD{S3: &s}}},
	}
}

// credential is a Secret as Rancher's clients write it.
func credential(namespace string, more map[string]string) objects.Object {
	o := objects.Object{Kind: objects.Secret, UID: "uid-1", Metadata: objects.Metadata{Namespace: namespace, Name: "cc-1"}, Data: map[string][]byte{
		"s3credentialConfig-accessKey": []byte("AKIA"), "s3credentialConfig-secretKey": []byte("hush"),
	}}
	for key, value := range more {
		o.Data["s3credentialConfig-"+key] = []byte(value)
	}
	return o
}

func of(c records.Cluster, all ...objects.Object) (snapshotbucket.Place, bool, error) {
	usable := map[string]objects.Object{}
	for _, o := range all {
		usable[o.Key()] = o
	}
	return snapshotbucket.Of(c, usable)
}

// TestSettingsAndCredential: what the document says wins over what the credential has.
func TestSettingsAndCredential(t *testing.T) {
	p, on, err := of(cluster(clusterspec.S3{CloudCredentialName: "fleet-default:cc-1", Bucket: "own", Folder: "/a/b/", Retention: 3, BucketLookupType: "path"}),
		credential("fleet-default", map[string]string{"defaultBucket": "other", "defaultEndpoint": "s3.lan:9000", "defaultSkipSSLVerify": "true"}))
	if !on || err != nil {
		t.Fatal(on, err)
	}
	got := map[string]string{}
	for key, value := range p.Data() {
		got[key] = string(value)
	}
	want := map[string]string{
		"etcd-s3-access-key": "AKIA", "etcd-s3-secret-key": "hush", "etcd-s3-bucket": "own", "etcd-s3-folder": "a/b", "etcd-s3-endpoint": "s3.lan:9000",
		"etcd-s3-region": "us-east-1", "etcd-s3-skip-ssl-verify": "true", "etcd-s3-retention": "3", "etcd-s3-bucket-lookup-type": "path",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(verb, p) + fmt.Sprintf(verb, &p); strings.Contains(text, "hush") || strings.Contains(text, "AKIA") {
			t.Errorf("%s prints %s", verb, text)
		}
	}
	if _, on, err := of(cluster(clusterspec.S3{})); on || err != nil {
		t.Errorf("without settings: %v, %v", on, err)
	}
}

// TestWhatIsWrong with a credential is said without its values.
func TestWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		s3     clusterspec.S3
		secret objects.Object
		want   string
	}{
		"no Secret":            {clusterspec.S3{CloudCredentialName: "fleet-default:cc-2"}, credential("fleet-default", nil), "there is no secret fleet-default/cc-2"},
		"one key":              {clusterspec.S3{CloudCredentialName: "fleet-default:cc-1"}, credential("fleet-default", map[string]string{"secretKey": ""}), "lacks accessKey or secretKey"},
		"no bucket":            {clusterspec.S3{CloudCredentialName: "fleet-default:cc-1"}, credential("fleet-default", nil), "has no name"},
		"an endpoint's scheme": {clusterspec.S3{CloudCredentialName: "fleet-default:cc-1", Bucket: "own"}, credential("fleet-default", map[string]string{"defaultEndpoint": "https://hush"}), "its value for endpoint is not of the form"},
		"neither":              {clusterspec.S3{CloudCredentialName: "fleet-default:cc-1", Bucket: "own"}, credential("fleet-default", map[string]string{"defaultSkipSSLVerify": "hush"}), "neither true nor false"},
	} {
		if _, on, err := of(cluster(c.s3), c.secret); !on || err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, %v", name, on, err)
		}
	}
}

// TestKeysAreUsedAtTheirOwnPlace: who may use a credential without reading it chooses neither where requests are signed for, nor the folder.
func TestKeysAreUsedAtTheirOwnPlace(t *testing.T) {
	secret := credential("fleet-default", map[string]string{"defaultBucket": "vault", "defaultEndpoint": "s3.lan:9000", "defaultFolder": "/etcd/"})
	const own = "etcd/c-m-harbour1"
	for name, c := range map[string]struct {
		s3     clusterspec.S3
		change func(*records.Cluster)
		secret objects.Object
		place  string // endpoint, bucket and folder
		want   string // of the error
	}{
		"nothing":             {clusterspec.S3{}, nil, secret, "s3.lan:9000 vault " + own, ""},
		"the same":            {clusterspec.S3{Endpoint: "s3.lan:9000", Bucket: "vault", Folder: "etcd"}, nil, secret, "s3.lan:9000 vault " + own, ""},
		"its folder":          {clusterspec.S3{Folder: "/" + own + "/"}, nil, secret, "s3.lan:9000 vault " + own, ""},
		"what leads nowhere":  {clusterspec.S3{Region: "eu-1", Retention: 2, BucketLookupType: "dns"}, nil, secret, "s3.lan:9000 vault " + own, ""},
		"another endpoint":    {clusterspec.S3{Endpoint: "evil.lan"}, nil, secret, "", "etcd.s3.endpoint is not that of secret fleet-default/cc-1"},
		"another port":        {clusterspec.S3{Endpoint: "s3.lan:9001"}, nil, secret, "", "etcd.s3.endpoint is not"},
		"another bucket":      {clusterspec.S3{Bucket: "payroll"}, nil, secret, "", "etcd.s3.bucket is not"},
		"another cluster's":   {clusterspec.S3{Folder: "etcd/c-m-quay0001"}, nil, secret, "", "etcd.s3.folder is not"},
		"another authority":   {clusterspec.S3{EndpointCA: "evil"}, nil, secret, "", "etcd.s3.endpointCA is not"},
		"no authority":        {clusterspec.S3{SkipSSLVerify: true}, nil, secret, "", "etcd.s3.skipSSLVerify is not"},
		"a bucket it has not": {clusterspec.S3{Bucket: "own"}, nil, credential("fleet-default", nil), "", "etcd.s3.bucket is not"},
		"Amazon's, as it is":  {clusterspec.S3{}, nil, credential("fleet-default", map[string]string{"defaultBucket": "vault"}), "s3.amazonaws.com vault c-m-harbour1", ""},
		"given for elsewhere": {clusterspec.S3{Endpoint: "evil.lan"}, func(c *records.Cluster) {
			c.Granted["Secret/fleet-default/cc-1"] = records.Granted{UID: "uid-1", Bucket: &clusterspec.S3{Endpoint: "s3.lan"}}
		}, secret, "", "etcd.s3.endpoint is not"},
		"given for another one": {clusterspec.S3{Endpoint: "evil.lan"}, func(c *records.Cluster) {
			place := clusterspec.S3{CloudCredentialName: "fleet-default:cc-1", Endpoint: "evil.lan"}
			c.Granted["Secret/fleet-default/cc-1"] = records.Granted{UID: "uid-0", Bucket: &place}
		}, secret, "", "etcd.s3.endpoint is not"},
	} {
		t.Run(name, func(t *testing.T) {
			c.s3.CloudCredentialName = "fleet-default:cc-1"
			cl := cluster(c.s3)
			cl.Granted = map[string]records.Granted{}
			if c.change != nil {
				c.change(&cl)
			}
			p, _, err := of(cl, c.secret)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) || p.AccessKey != "" {
					t.Errorf("%v", err)
				}
				return
			}
			if got := p.Endpoint + " " + p.Bucket + " " + p.Folder; err != nil || got != c.place || !p.Own {
				t.Errorf("%s, own %v, %v", got, p.Own, err)
			}
		})
	}
}

// TestLinks of a real server open one object, and no other.
func TestLinks(t *testing.T) {
	s, ca, err := s3server.StartTLS(t.Context(), s3server.Options{Module: "../..", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.MakeBucket("harbour"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one+two @3", "other"} {
		file := s.File("harbour", "a b/c/"+name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust}, DisableKeepAlives: true}}
	get := func(link string) (int, string) {
		t.Helper()
		answer, err := client.Get(link)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	p := snapshotbucket.Place{S3: clusterspec.S3{Endpoint: s.Endpoint, Bucket: "harbour", Region: "us-east-1", Folder: "a b/c"}, AccessKey: s3server.AccessKey, SecretKey: s3server.SecretKey}
	link, err := p.Link("one+two @3", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if status, text := get(link); status != http.StatusOK || text != "one+two @3" {
		t.Errorf("%d: %s", status, text)
	}
	if status, _ := get(strings.Replace(link, "one%2Btwo%20%403", "other", 1)); status != http.StatusForbidden {
		t.Errorf("another object is answered with %d", status)
	}
	if strings.Contains(link, s3server.SecretKey) {
		t.Errorf("the link has the key")
	}
	old, err := p.Link("other", time.Now().Add(-2*snapshotbucket.LinkLimit))
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := get(old); status == http.StatusOK {
		t.Error("a link of yesterday still opens")
	}
	p.AccessKey, p.SecretKey = "", ""
	if _, err := p.Link("other", time.Now()); err == nil {
		t.Error("there is a link without keys")
	}
}

// TestHostsOfLinks stand where the endpoint looks for the bucket.
func TestHostsOfLinks(t *testing.T) {
	for _, c := range []struct {
		s3   clusterspec.S3
		want string
	}{
		{clusterspec.S3{Endpoint: snapshotbucket.Amazon, Region: "us-east-1", Bucket: "own"}, "https://own.s3.amazonaws.com/a?"},
		{clusterspec.S3{Endpoint: snapshotbucket.Amazon, Region: "eu-west-1", Bucket: "own"}, "https://own.s3.eu-west-1.amazonaws.com/a?"},
		{clusterspec.S3{Endpoint: snapshotbucket.Amazon, Region: "eu-west-1", Bucket: "my.own"}, "https://s3.eu-west-1.amazonaws.com/my.own/a?"},
		{clusterspec.S3{Endpoint: "s3.lan:443", Region: "r", Bucket: "own"}, "https://s3.lan/own/a?"},
		{clusterspec.S3{Endpoint: "s3.lan:9000", Region: "r", Bucket: "own", BucketLookupType: "dns"}, "https://own.s3.lan:9000/a?"},
	} {
		if link, err := (snapshotbucket.Place{S3: c.s3, AccessKey: "A", SecretKey: "s"}).Link("a", time.Unix(0, 0)); err != nil || !strings.HasPrefix(link, c.want) {
			t.Errorf("%s, %v; want %s", link, err, c.want)
		}
	}
}
