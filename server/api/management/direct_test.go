package management

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

var update = flag.Bool("update", false, "write golden files")

func controlPlane(name string, change func(*records.Machine)) records.Machine {
	m := records.Machine{Object: records.Object{Name: "custom-" + name}, NodeName: name, Roles: records.Roles{ControlPlane: true}, InternalAddress: []string{"10.0.0.1"}}
	if change != nil {
		change(&m)
	}
	return m
}

func TestDirectly(t *testing.T) {
	on := clusterspec.LocalClusterAuthEndpoint{Enabled: true}
	machines := []records.Machine{
		controlPlane("harbour-two", func(m *records.Machine) {
			m.Address, m.InternalAddress = []string{"203.0.113.2"}, []string{"10.0.0.2", "fd00::2"}
		}),
		controlPlane("one", func(m *records.Machine) { m.InternalAddress = []string{"fd00::1"} }),
		controlPlane("", nil),
		controlPlane("worker", func(m *records.Machine) { m.Roles = records.Roles{Etcd: true, Worker: true} }),
		controlPlane("leaving", func(m *records.Machine) { m.Deleting = time.Unix(1, 0) }),
		controlPlane("nowhere", func(m *records.Machine) { m.InternalAddress = nil }),
		controlPlane("one", nil), // the name of a host that has not been renewed
	}
	for name, test := range map[string]struct {
		e        clusterspec.LocalClusterAuthEndpoint
		machines []records.Machine
		ca       string
		want     []direct
		missing  string
	}{
		"off":           {machines: machines, ca: "CA"},
		"hosts":         {on, machines, "CA", []direct{{"harbour-custom-", "https://10.0.0.1:6443", "CA"}, {"harbour-one", "https://10.0.0.1:6443", "CA"}, {"harbour-two", "https://203.0.113.2:6443", "CA"}}, ""},
		"one host":      {on, machines[1:2], "CA", []direct{{"harbour-one", "https://[fd00::1]:6443", "CA"}}, ""},
		"no CA yet":     {on, machines, "", nil, "has not reached the cluster"},
		"no hosts":      {on, machines[3:5], "CA", nil, "no control-plane machine"},
		"a name":        {clusterspec.LocalClusterAuthEndpoint{Enabled: true, FQDN: "k8s.lan"}, machines, "", []direct{{"harbour-fqdn", "https://k8s.lan", ""}}, ""},
		"a name and CA": {clusterspec.LocalClusterAuthEndpoint{Enabled: true, FQDN: "k8s.lan", CACerts: "PEM"}, nil, "CA", []direct{{"harbour-fqdn", "https://k8s.lan", "PEM"}}, ""},
	} {
		got, missing := directly("harbour", test.e, test.machines, test.ca)
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(direct{})); diff != "" || !strings.Contains(missing, test.missing) || (missing == "") != (test.missing == "") {
			t.Errorf("%s: %q %s", name, missing, diff)
		}
	}
}

// TestGoldenKubeconfig holds the text of a kubeconfig with ways that do not lead through the server.
func TestGoldenKubeconfig(t *testing.T) {
	k, err := newKubeconfig("harbour", "c-m-h4rb0r55", "https://drover.example", "SERVER CA", "u-ann", "kubeconfig-u-ann12345:key", "c-m-h4rb0r55")
	if err != nil {
		t.Fatal(err)
	}
	k.lead([]direct{{"harbour-one", "https://10.0.0.1:6443", "CLUSTER CA"}, {"harbour-fqdn", "https://k8s.lan", ""}})
	got, err := yaml.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/kubeconfig.yaml"
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
	k, err = newKubeconfig("harbour", "c-m-h4rb0r55", "https://drover.example", "", "u-ann", "", "c-m-h4rb0r55")
	if err != nil || k.Users[0].User.Exec == nil || k.Users[0].User.Exec.Args[3] != "--cluster=c-m-h4rb0r55" {
		t.Errorf("%+v, %v", k.Users, err)
	}
}
