package registration

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans/forms"
	"github.com/drover-project/drover/server/records"
)

func TestParseLabels(t *testing.T) {
	for _, c := range []struct {
		name, list string
		want       map[string]string
		reason     string
	}{
		{name: "none", list: ""},
		{name: "commas only", list: ",,"},
		{name: "two", list: "a=b,example.com/c=d", want: map[string]string{"a": "b", "example.com/c": "d"}},
		{name: "blanks around", list: " a=b , c=d ", want: map[string]string{"a": "b", "c": "d"}},
		{name: "empty value", list: "a=", want: map[string]string{"a": ""}},
		{name: "twice the same", list: "a=b,a=b", want: map[string]string{"a": "b"}},
		{name: "windows", list: "cattle.io/os=windows", reason: "hosts with linux only"},
		{name: "well known", list: "topology.kubernetes.io/zone=z1,node.kubernetes.io/x=y", want: map[string]string{"topology.kubernetes.io/zone": "z1", "node.kubernetes.io/x": "y"}},
		{name: "no value", list: "a", reason: `"a" is not of the form key=value`},
		{name: "two equal signs", list: "a=b=c", reason: "value"},
		{name: "no key", list: "=b", reason: "label key"},
		{name: "empty prefix", list: "/a=b", reason: "label key"},
		{name: "two slashes", list: "x/y/a=b", reason: "label key"},
		{name: "long value", list: "a=" + strings.Repeat("b", 64), reason: "63"},
		{name: "other operating system", list: "cattle.io/os=beos", reason: "hosts with linux only"},
		{name: "twice different", list: "a=b,a=c", reason: "twice"},
		{name: "server's", list: "rke.cattle.io/init-node=true", reason: "belongs to the server"},
		{name: "kubelet refuses", list: "node-role.kubernetes.io/db=true", reason: "kubelet"},
		{name: "kubelet refuses k8s.io", list: "x.k8s.io/db=true", reason: "kubelet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseLabels(c.list)
			if c.reason == "" {
				if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
					t.Errorf("%v %s", err, diff)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%v, want a reason with %q", err, c.reason)
			}
		})
	}
}

func TestParseTaints(t *testing.T) {
	for _, c := range []struct {
		name, list string
		want       []records.Taint
		reason     string
	}{
		{name: "none", list: " , "},
		{name: "with value", list: "b=c:NoSchedule,a=d:NoExecute", want: []records.Taint{{Key: "a", Value: "d", Effect: "NoExecute"}, {Key: "b", Value: "c", Effect: "NoSchedule"}}},
		{name: "without value", list: "a:NoSchedule,b=:PreferNoSchedule", want: []records.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "b", Effect: "PreferNoSchedule"}}},
		{name: "prefixed", list: "node-role.kubernetes.io/control-plane=x:NoSchedule", want: []records.Taint{{Key: "node-role.kubernetes.io/control-plane", Value: "x", Effect: "NoSchedule"}}},
		{name: "both effects of a key", list: "a=b:NoSchedule,a=b:NoExecute", want: []records.Taint{{Key: "a", Value: "b", Effect: "NoExecute"}, {Key: "a", Value: "b", Effect: "NoSchedule"}}},
		{name: "no effect", list: "a=b", reason: "key=value:Effect"},
		{name: "two colons", list: "a=b:c:NoSchedule", reason: "key=value:Effect"},
		{name: "two equal signs", list: "a=b=c:NoSchedule", reason: "value"},
		{name: "no key", list: "=b:NoSchedule", reason: "key"},
		{name: "other effect", list: "a=b:noschedule", reason: "NoSchedule, PreferNoSchedule, NoExecute"},
		{name: "twice", list: "a=b:NoSchedule,a=c:NoSchedule", reason: "twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseTaints(c.list)
			if c.reason == "" {
				if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
					t.Errorf("%v %s", err, diff)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%v, want a reason with %q", err, c.reason)
			}
		})
	}
}

// FuzzRequest holds what the rest of the server relies on for whatever a host sends.
func FuzzRequest(f *testing.F) {
	f.Add("a=b,example.com/c=d", "a=b:NoSchedule", "10.0.0.1,fd00::1", "id-1", "node-1", "true")
	f.Add("cattle.io/os=windows,,=", "a:NoExecute,b=c:x", "fe80::1%eth0", "", "N", "maybe")
	f.Add("a=\x00", "a=b:c:d", "::", strings.Repeat("a", 64), "..", "\xff")
	f.Fuzz(func(t *testing.T, labels, taints, addresses, id, node, role string) {
		h := http.Header{headerLabels: {labels}, headerTaints: {taints}, headerAddress: {addresses}, headerID: {id}, headerNodeName: {node}, headerWorker: {role}}
		q, err := readRequest(h)
		if err != nil {
			if len(err.Error()) > 2000 || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("refusal %q", err)
			}
			return
		}
		if q.MachineID == "" || forms.LabelValue(q.MachineID) != "" || len(q.Address) > maxAddresses || len(q.Labels) > maxLabels || len(q.Taints) > maxTaints {
			t.Errorf("accepted %+v", q)
		}
		for key, value := range q.Labels {
			if labelKeyFault(key) != "" || len(value) > 63 || strings.ContainsAny(key+value, ",= \n\x00'\"$`\\") {
				t.Errorf("accepted label %q=%q", key, value)
			}
		}
		for _, taint := range q.Taints {
			if taint.Key == "" || len(taint.Value) > 63 || strings.ContainsAny(taint.Key+taint.Value, ",=: \n\x00'\"$`\\") {
				t.Errorf("accepted taint %+v", taint)
			}
		}
		for _, a := range q.Address {
			if _, err := netip.ParseAddr(a); err != nil {
				t.Errorf("accepted address %q", a)
			}
		}
		// What was read is read the same again: nothing is lost between here and a second registration.
		h.Set(headerLabels, labelText(q.Labels))
		h.Set(headerTaints, taintText(q.Taints))
		again, err := readRequest(h)
		if err != nil {
			t.Fatalf("read back: %v", err)
		}
		if diff := cmp.Diff(q, again); diff != "" {
			t.Errorf("read back: %s", diff)
		}
	})
}

// TestHostname: it is only shown, so that a name that is none refuses nothing, and a registration without one keeps what is known.
func TestHostname(t *testing.T) {
	for given, want := range map[string]string{
		"pier-1": "pier-1", "Pier-1.Example.COM": "pier-1.example.com", "": "", "pier_1": "", "<b>": "", "a\nb": "", strings.Repeat("a.", 126) + "aa": "",
	} {
		q, err := readRequest(http.Header{headerID: {strings.Repeat("a", 63)}, headerHostname: {given}})
		if err != nil || q.Hostname != want {
			t.Errorf("%q: %q, %v", given, q.Hostname, err)
		}
	}
	known := records.Machine{Hostname: "pier-1", NodeName: "n1"}
	for _, delivered := range []bool{false, true} {
		for asked, want := range map[string]string{"": "pier-1", "pier-2": "pier-2"} {
			v := weighRequest(known, delivered, hostRequest{NodeName: "n1", Hostname: asked})
			if v.Machine.Hostname != want || v.Refused || len(v.Kept)+len(v.Applied) > 0 {
				t.Errorf("plan delivered: %t, asked for %q: %+v", delivered, asked, v)
			}
		}
	}
}
