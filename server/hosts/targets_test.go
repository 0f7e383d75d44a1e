package hosts

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
)

func TestTargetsOnADockerHost(t *testing.T) {
	m := records.Machine{NodeName: "n1", Address: []string{"203.0.113.10"}, InternalAddress: []string{"fd00::7"}}
	for target, allowed := range map[string]bool{
		"unix /var/run/docker.sock": true, "tcp drover-agent:80": true, "tcp 127.0.0.1:6443": true, "tcp 127.0.0.1:2379": true,
		"tcp [::1]:10250": true, "tcp 203.0.113.10:2380": true, "tcp [fd00::7]:10256": true,
		"unix /run/containerd/containerd.sock": false, "tcp 203.0.113.11:6443": false, "tcp 169.254.169.254:6443": false, "tcp 127.0.0.1:22": false,
		"tcp localhost:6443": false, "tcp 0.0.0.0:6443": false, "udp 127.0.0.1:6443": false, "tcp 127.0.0.1": false, "npipe //./pipe/docker_engine": false,
	} {
		network, address, _ := strings.Cut(target, " ")
		if err := dockerTarget(m, network, address); (err == nil) != allowed {
			t.Errorf("%s: %v", target, err)
		}
	}
	if err := dockerTarget(records.Machine{Address: []string{"169.254.169.254"}}, "tcp", "169.254.169.254:6443"); err == nil {
		t.Error("a host that calls itself a metadata service is dialled there")
	}
}

func TestTargetsOnAHost(t *testing.T) {
	for target, allowed := range map[string]bool{
		"tcp 127.0.0.1:6443": true, "tcp drover-agent:80": true,
		"tcp 127.0.0.1:22": false, "tcp 10.0.0.1:6443": false, "unix /var/run/docker.sock": false, "udp 127.0.0.1:6443": false,
	} {
		network, address, _ := strings.Cut(target, " ")
		if err := systemTarget(network, address); (err == nil) != allowed {
			t.Errorf("%s: %v", target, err)
		}
	}
}
