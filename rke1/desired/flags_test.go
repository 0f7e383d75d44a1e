package desired

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/versions"
)

func TestForms(t *testing.T) {
	options := map[string]string{"gone": "", "emptied": "''", "below": "[PREFIX_PATH]/var/log", "set": "3"}
	f := flags{"gone": "1", "emptied": "2", "own": "0"}
	f.overrideKubelet(options, "/opt/rke")
	if diff := cmp.Diff(flags{"emptied": "", "below": "/opt/rke/var/log", "set": "3", "own": "0"}, f); diff != "" {
		t.Error("the kubelet:", diff)
	}
	f = flags{"gone": "1"}
	f.override(options)
	if diff := cmp.Diff(flags{"emptied": "''", "below": "[PREFIX_PATH]/var/log", "set": "3"}, f); diff != "" {
		t.Error("the others:", diff)
	}
}

// Data that say nothing of etcd are of versions whose flags have no value, and whose etcdctl has another variable.
func TestOldEtcd(t *testing.T) {
	in := input(t, minors[0], func(c *config.Cluster) {
		c.KubernetesVersion, c.SystemImages.Kubernetes, c.SystemImages.Etcd = "v1.15.0-rancher1-1", "rancher/hyperkube:v1.15.0-rancher1", "e:v3.2.24-rancher1"
	})
	data, err := versions.Read("test", []byte(`{
		"K8sVersionRKESystemImages": {"v1.15.0-rancher1-1": {"etcd": "e", "kubernetes": "k", "alpine": "a"}},
		"K8sVersionServiceOptions": {"v1.15": {"kubelet": {"v": "2"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	in.Versions = data
	c := find(t, hosts(t, in)["203.0.113.2"], Etcd)
	if got := strings.Join(c.Args[:3], " "); got != "/usr/local/bin/etcd --client-cert-auth --peer-client-cert-auth" {
		t.Error(got)
	}
	if got := c.Env[4]; got != "ETCDCTL_ENDPOINT=https://10.0.0.2:2379" {
		t.Error(got)
	}
}
