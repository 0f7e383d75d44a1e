package aci

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSettings(t *testing.T) {
	written := map[string]any{
		"system_id": "s", "kube_api_vlan": int64(12), "use_aci_anywhere_crd": false, "l3out_external_networks": []any{"n", int64(1)},
		"service_graph_endpoint_add_services": []any{map[string]any{"name": "a", "port": 1.5}}, "aci_multipod": nil,
	}
	s := Settings(written).FromYAML()
	want := Settings{
		"systemId": "s", "kubeApiVlan": "12", "useAciAnywhereCrd": "false", "l3outExternalNetworks": []any{"n", "1"},
		"serviceGraphEndpointAddServices": []any{map[string]any{"name": "a", "port": "1.5"}}, "aciMultipod": "",
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	names, err := s.MarshalYAML()
	if err != nil {
		t.Fatal(err)
	}
	for name := range written {
		if _, ok := names.(map[string]any)[name]; !ok {
			t.Errorf("%s is not written again: %v", name, names)
		}
	}
	options := map[string]string{
		"aci_system_identifier": "s", "aci_kubeapi_vlan": "12", "aci_use_aci_anywhere_crd": "false", "aci_aci_multipod": "",
	}
	if diff := cmp.Diff(options, s.Options()); diff != "" {
		t.Error(diff)
	}
	missing := strings.Join(s.Missing(options), " ")
	if !strings.HasPrefix(missing, "token apic_user_name ") || !strings.HasSuffix(missing, " apic_hosts") || strings.Contains(missing, "kube_api_vlan") {
		t.Errorf("%s are missing", missing)
	}
	if Settings(nil).FromYAML() != nil {
		t.Error("no settings became some")
	}
}

func TestDefaults(t *testing.T) {
	seen := map[string]bool{}
	for one := range strings.FieldsSeq(Defaults) {
		name, value, ok := strings.Cut(one, "=")
		if !ok || value == "" || !strings.HasPrefix(name, "aci_") || seen[name] {
			t.Errorf("%q is not an option with a value of its own", one)
		}
		seen[name] = true
	}
}
