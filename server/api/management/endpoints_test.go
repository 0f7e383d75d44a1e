package management

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

func controlPlane(name string, change func(*records.Machine)) records.Machine {
	m := records.Machine{Object: records.Object{Name: "custom-" + name}, NodeName: name, Roles: records.Roles{ControlPlane: true}, InternalAddress: []string{"10.0.0.1"}}
	if change != nil {
		change(&m)
	}
	return m
}

func TestOf(t *testing.T) {
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
		want     []endpoint
		missing  string
	}{
		"off":      {machines: machines, ca: "CA"},
		"hosts":    {on, machines, "CA", []endpoint{{"harbour-custom-", "https://10.0.0.1:6443", "CA"}, {"harbour-one", "https://10.0.0.1:6443", "CA"}, {"harbour-two", "https://203.0.113.2:6443", "CA"}}, ""},
		"one host": {on, machines[1:2], "CA", []endpoint{{"harbour-one", "https://[fd00::1]:6443", "CA"}}, ""},
		"as its node": {on, []records.Machine{controlPlane("", func(m *records.Machine) {
			m.InternalAddress = nil
			m.Status.Node = &records.NodeRef{Name: "pier-1", Addresses: []string{"pier-1", "10.0.0.9", "fd00::9"}}
		})}, "CA", []endpoint{{"harbour-pier-1", "https://10.0.0.9:6443", "CA"}}, ""},
		"no CA yet":          {on, machines, "", nil, "has not reached the cluster"},
		"no hosts":           {on, machines[3:5], "CA", nil, "no control-plane machine"},
		"a name":             {clusterspec.LocalClusterAuthEndpoint{Enabled: true, FQDN: "k8s.lan"}, machines, "", []endpoint{{"harbour-fqdn", "https://k8s.lan", ""}}, ""},
		"a scheme of before": {clusterspec.LocalClusterAuthEndpoint{Enabled: true, FQDN: "https://k8s.lan:6443/"}, nil, "CA", []endpoint{{"harbour-fqdn", "https://k8s.lan:6443", ""}}, ""},
		"a name and CA":      {clusterspec.LocalClusterAuthEndpoint{Enabled: true, FQDN: "k8s.lan", CACerts: "PEM"}, nil, "CA", []endpoint{{"harbour-fqdn", "https://k8s.lan", "PEM"}}, ""},
	} {
		got, missing := endpointsOf("harbour", test.e, test.machines, test.ca)
		if diff := cmp.Diff(test.want, got); diff != "" || !strings.Contains(missing, test.missing) || (missing == "") != (test.missing == "") {
			t.Errorf("%s: %q %s", name, missing, diff)
		}
	}
}
