package registration_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

// dockyard turns the cluster "lab" into one of Docker hosts.
func dockyard(t *testing.T) *fixture {
	t.Helper()
	f := setUp(t, nil)
	_, err := f.state.Clusters.Modify(t.Context(), "fleet-default/lab", func(c records.Cluster) (records.Cluster, error) {
		c.Spec = clusterspec.Spec{
			RancherKubernetesEngineConfig: &clusterspec.RancherKubernetesEngineConfig{},
			AgentEnvVars:                  []clusterspec.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}, {Name: "EMPTY"}},
		}
		return c, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestJoinCommandOfDockerHosts(t *testing.T) {
	f := dockyard(t)
	join, err := f.JoinCommand("c-m-lab00000")
	if err != nil {
		t.Fatal(err)
	}
	want := `sudo docker run -d --privileged --restart=unless-stopped --net=host -v /etc/kubernetes:/etc/kubernetes -v /var/run:/var/run ` +
		`-e "HTTPS_PROXY=http://proxy:3128" drover/rancher-agent:v0.1.0 --server ` + serverURL + ` --token ` + f.token["lab"] + ` --ca-checksum ` + f.settings.CAChecksum()
	if join.NodeCommand != want || join.InsecureNodeCommand != want {
		t.Errorf("%+v\nwant %s", join, want)
	}
	line := "CATTLE_TOKEN=" + f.token["lab"] + " sudo --preserve-env=CATTLE_TOKEN " +
		strings.NewReplacer("sudo ", "", "-e ", "-e CATTLE_TOKEN -e ", " --token "+f.token["lab"], "").Replace(want)
	if join.Line != line {
		t.Errorf("the line is %s\nwant %s", join.Line, line)
	}
	if err := f.settings.Set(t.Context(), "agent-image", "registry.lan:5000/agent@sha256:aa"); err != nil {
		t.Fatal(err)
	}
	if join, err = f.JoinCommand("c-m-lab00000"); err != nil || !strings.Contains(join.NodeCommand, " registry.lan:5000/agent@sha256:aa --server ") {
		t.Errorf("%s, %v", join.NodeCommand, err)
	}
	if err := f.settings.Set(t.Context(), "agent-image", "agent; rm -rf /"); err == nil || !strings.Contains(err.Error(), "is not a name of an image") {
		t.Errorf("an image that is a command: %v", err)
	}
}

func TestASystemAgentDoesNotJoinDockerHosts(t *testing.T) {
	f := dockyard(t)
	got := f.register(t, "lab", nil)
	if got.Status != http.StatusConflict || !strings.Contains(got.Body, "cluster lab is one of Docker hosts: run on the host what `drover clusters join-command lab --docker` prints") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}
