package connect_test

import (
	"encoding/base64"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/tunnel/connect"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: %s", path, diff)
	}
}

func node() *connect.Node {
	return &connect.Node{
		CustomConfig: &connect.CustomConfig{
			Address: "203.0.113.7", InternalAddress: "10.0.0.7", Roles: []string{"etcd", "worker"},
			Label: map[string]string{"zone": "a", "empty": ""}, Taints: []string{"k=v:NoSchedule", "bare:NoExecute"},
		},
		Etcd: true, Worker: true, RequestedHostname: "n1",
		DockerInfo: &connect.DockerInfo{
			Architecture: "x86_64", CgroupDriver: "cgroupfs", DockerRootDir: "/var/lib/docker", Driver: "overlay2",
			HTTPProxy: "http://proxy:3128", KernelVersion: "6.1.0", Labels: []string{"rack=1"}, Name: "n1", NoProxy: "10.0.0.0/8",
			OSType: "linux", OperatingSystem: "Debian GNU/Linux 12 (bookworm)", SecurityOptions: []string{"name=seccomp,profile=builtin"}, ServerVersion: "20.10.24",
		},
	}
}

func TestParamsOnTheWire(t *testing.T) {
	for name, p := range map[string]connect.Params{
		"register.json":    {Node: node()},
		"acknowledge.json": {Node: node(), NodeVersion: 7},
		"bare.json":        {Node: &connect.Node{RequestedHostname: "node-a", ControlPlane: true}},
	} {
		t.Run(name, func(t *testing.T) {
			header, err := connect.Encode(p)
			if err != nil {
				t.Fatal(err)
			}
			b, err := base64.StdEncoding.DecodeString(header)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, append(b, '\n'))
			again, err := connect.Decode(header)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(p, again); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOriginalAgent reads what an original agent sends: the whole answer of Docker.
func TestOriginalAgent(t *testing.T) {
	b, err := os.ReadFile("testdata/original.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := connect.Decode(base64.StdEncoding.EncodeToString(b))
	if err != nil {
		t.Fatal(err)
	}
	want := connect.Params{NodeVersion: 3, Node: &connect.Node{
		RequestedHostname: "node-a", Etcd: true, ControlPlane: true,
		CustomConfig: &connect.CustomConfig{Address: "203.0.113.10", InternalAddress: "10.0.0.10", Roles: []string{"etcd", "controlplane"},
			Label: map[string]string{"rack": "a1"}, Taints: []string{"dedicated=infra:NoSchedule"}},
		DockerInfo: &connect.DockerInfo{ID: "X", ServerVersion: "20.10.24", OSType: "linux", Labels: []string{}},
	}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
}

func TestMachineName(t *testing.T) {
	if got := connect.MachineName("node-a"); got != "m-6cec8a5bb33a" {
		t.Error(got)
	}
}

func TestDockerIsCutBeforeTheHeaderIsTooLong(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*connect.Node)
		want   func(connect.Node) bool
	}{
		{"labels", func(n *connect.Node) { n.DockerInfo.Labels = []string{strings.Repeat("l", 9<<10)} },
			func(n connect.Node) bool { return n.DockerInfo.Labels == nil && n.DockerInfo.NoProxy != "" }},
		{"proxies", func(n *connect.Node) { n.DockerInfo.NoProxy = strings.Repeat("p", 9<<10) },
			func(n connect.Node) bool { return n.DockerInfo.NoProxy == "" && n.DockerInfo.ServerVersion != "" }},
		{"a name beyond reason", func(n *connect.Node) { n.DockerInfo.Name = strings.Repeat("n", 9<<10) },
			func(n connect.Node) bool { return n.DockerInfo == nil && n.CustomConfig != nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := node()
			tc.change(n)
			header, err := connect.Encode(connect.Params{Node: n})
			if err != nil {
				t.Fatal(err)
			}
			if len(header) >= 8<<10 {
				t.Errorf("%d bytes", len(header))
			}
			p, err := connect.Decode(header)
			if err != nil {
				t.Fatal(err)
			}
			if !tc.want(*p.Node) {
				t.Errorf("%+v", p.Node.DockerInfo)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	host := func(s string) string { return b64(`{"node":{"requestedHostname":"n","customConfig":{` + s + `}}}`) }
	for _, tc := range []struct{ name, header, want string }{
		{"nothing", "", "missing"},
		{"too long", strings.Repeat("A", connect.MaxParams+4), "65540 bytes"},
		{"no base64", "{secret}", "not standard base64"},
		{"no JSON", b64("<html>secret"), "not JSON, at byte 1"},
		{"half of it", b64(`{"node":`), "not JSON"},
		{"a list", b64(`["secret"]`), "an object belongs"},
		{"neither", b64(`{}`), "node and cluster are missing"},
		{"both", b64(`{"node":{"requestedHostname":"a"},"cluster":{}}`), "node and cluster are both there"},
		{"a cluster without token and CA", b64(`{"cluster":{"address":"10.43.0.1:443"}}`), "invalid input, address|token|caCert empty"},
		{"a CA that is none", b64(`{"cluster":{"address":"10.43.0.1:443","token":"t","caCert":"bm9uZQ=="}}`), "cluster.caCert has no certificate"},
		{"a CA that is not base64", b64(`{"cluster":{"address":"10.43.0.1:443","token":"t","caCert":"-----BEGIN"}}`), "cluster.caCert is not standard base64"},
		{"a token with a line break", b64(`{"cluster":{"address":"10.43.0.1:443","token":"t\nx","caCert":"bm9uZQ=="}}`), "cluster.token has characters"},
		{"an address without a port", b64(`{"cluster":{"address":"10.43.0.1","token":"t","caCert":"bm9uZQ=="}}`), "cluster.address is not of the form"},
		{"a metadata service", b64(`{"cluster":{"address":"169.254.169.254:80","token":"t","caCert":"bm9uZQ=="}}`), "metadata services"},
		{"no name", b64(`{"node":{}}`), "node.requestedHostname is empty"},
		{"a number for a name", b64(`{"node":{"requestedHostname":7}}`), "node.requestedHostname is a number"},
		{"a path for a name", b64(`{"node":{"requestedHostname":"../secret"}}`), "node.requestedHostname has other characters"},
		{"a flag for a name", b64(`{"node":{"requestedHostname":"-secret"}}`), "begins with a dash"},
		{"a command for a name", b64(`{"node":{"requestedHostname":"n;secret"}}`), "node.requestedHostname has other characters"},
		{"a control character of C1", host(`"label":{"a":"\u009b2J"}`), "unprintable"},
		{"a name from right to left", host(`"label":{"a":"\u202etxt"}`), "unprintable"},
		{"an address that means each host", host(`"address":"0.0.0.0"`), "node.customConfig.address is the host itself"},
		{"loopback", host(`"address":"127.0.0.1"`), "node.customConfig.address is the host itself"},
		{"loopback by name", host(`"internalAddress":"localhost"`), "node.customConfig.internalAddress is the host itself"},
		{"a host's metadata service", host(`"address":"169.254.169.254"`), "metadata services"},
		{"a command behind an address", host(`"address":"10.0.0.3;secret"`), "node.customConfig.address is no IP address"},
		{"a short address", host(`"address":"10.0.3"`), "node.customConfig.address is no IP address"},
		{"a decimal address", host(`"address":"2130706433"`), "node.customConfig.address is no IP address"},
		{"two lines", b64(`{"node":{"requestedHostname":"a\nsecret"}}`), "unprintable"},
		{"a long name", b64(`{"node":{"requestedHostname":"` + strings.Repeat("n", 300) + `"}}`), "300 bytes"},
		{"version", b64(`{"node":{"requestedHostname":"n"},"nodeVersion":-1}`), "nodeVersion is -1"},
		{"role", host(`"roles":["master"]`), "roles[0]"},
		{"roles", host(`"roles":["etcd","etcd","etcd","etcd"]`), "twice"},
		{"taint", host(`"taints":["a=b:NoSchedule","a=b"]`), "taints[1]"},
		{"label", host(`"label":{"":"v"}`), "without a key"},
		{"a key of a label", host(`"label":{"a b":"v"}`), "node.customConfig.label has a key that is not a key of Kubernetes"},
		{"a value of a label", host(`"label":{"rack":"row 7"}`), "node.customConfig.label has a value of rack that is not a value of Kubernetes"},
		{"a key of a taint", host(`"taints":["a b:NoSchedule"]`), "taints[0] has a key that is not a key of Kubernetes"},
		{"a value of a taint", host(`"taints":["a=b=c:NoSchedule"]`), "taints[0] has a value that is not a value of Kubernetes"},
		{"labels", host(`"label":"a=b"`), "label is a string"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := connect.Decode(tc.header)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), connect.ParamsHeader) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error quotes the header: %v", err)
			}
		})
	}
	if _, err := connect.Encode(connect.Params{}); err == nil {
		t.Error("Params without a node were written")
	}
	many := node()
	for i := range 90 {
		many.CustomConfig.Label[strings.Repeat("k", 60)+strconv.Itoa(i)] = strings.Repeat("v", 63)
	}
	if _, err := connect.Encode(connect.Params{Node: many}); err == nil || !strings.Contains(err.Error(), "labels and taints") {
		t.Errorf("too many labels: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range []string{"original.json", "register.json", "bare.json"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	ca, err := os.ReadFile(filepath.Join("testdata", "ca.pem"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{"cluster":{"address":"fd00::1:443","token":"a.b","caCert":"` + base64.StdEncoding.EncodeToString(ca) + `"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := connect.Decode(base64.StdEncoding.EncodeToString([]byte(text)))
		if err != nil {
			return
		}
		if p.Cluster != nil {
			header, err := connect.EncodeCluster(*p.Cluster)
			if err != nil {
				t.Fatalf("read, but not written: %v", err)
			}
			if again, err := connect.Decode(header); err != nil || *again.Cluster != *p.Cluster {
				t.Errorf("%+v became %+v, %v", p.Cluster, again.Cluster, err)
			}
			if _, err := connect.Certificates(p.Cluster.CA()); err != nil {
				t.Errorf("taken, but later: %v", err)
			}
			return
		}
		header, err := connect.Encode(p)
		if err != nil {
			if !strings.Contains(err.Error(), "longer than") {
				t.Fatalf("read, but not written: %v", err)
			}
			return
		}
		again, err := connect.Decode(header)
		if err != nil {
			t.Fatalf("written, but not read: %v", err)
		}
		if again.Node.RequestedHostname != p.Node.RequestedHostname || again.NodeVersion != p.NodeVersion {
			t.Errorf("%+v became %+v", p, again)
		}
	})
}

// TestClusterParamsOnTheWire holds what a cluster agent sends to the form of the original's.
func TestClusterParamsOnTheWire(t *testing.T) {
	ca, err := os.ReadFile(filepath.Join("testdata", "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	header, err := connect.EncodeCluster(*connect.NewCluster("fd00::1:443", "a.service.account", ca))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(header)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "cluster.json", raw)
	p, err := connect.Decode(header)
	if err != nil || p.Cluster == nil || p.Cluster.Address != "[fd00::1]:443" || p.Cluster.Token != "a.service.account" || p.Cluster.CA() != string(ca) {
		t.Errorf("decoded %+v, %v", p.Cluster, err)
	}
}
