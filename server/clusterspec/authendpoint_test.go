package clusterspec

import "testing"

func TestAuthEndpoint(t *testing.T) {
	rke1 := func(text string) Spec {
		c := RancherKubernetesEngineConfig(text)
		return Spec{RancherKubernetesEngineConfig: &c}
	}
	on := LocalClusterAuthEndpoint{Enabled: true}
	for name, test := range map[string]struct {
		spec Spec
		want LocalClusterAuthEndpoint
	}{
		"nothing said":         {Spec{}, LocalClusterAuthEndpoint{}},
		"off, with a name":     {Spec{LocalClusterAuthEndpoint: &LocalClusterAuthEndpoint{FQDN: "k8s.lan"}}, LocalClusterAuthEndpoint{}},
		"on":                   {Spec{LocalClusterAuthEndpoint: &on}, on},
		"on, with a name":      {Spec{LocalClusterAuthEndpoint: &LocalClusterAuthEndpoint{Enabled: true, FQDN: "k8s.lan"}}, LocalClusterAuthEndpoint{Enabled: true, FQDN: "k8s.lan"}},
		"Docker hosts":         {rke1(""), LocalClusterAuthEndpoint{}},
		"RKE1":                 {rke1(`{"kubernetes_version":"v1.24.17-rancher1-1"}`), LocalClusterAuthEndpoint{}},
		"RKE1, webhook":        {rke1(`{"authentication":{"strategy":"x509|webhook"}}`), on},
		"RKE1, ours in words":  {rke1(`{"authentication":{"strategy":"x509 | Webhook","webhook":{"configFile":"server: http://127.0.0.1:6440/v1/authenticate"}}}`), on},
		"RKE1, an own webhook": {rke1(`{"authentication":{"strategy":"x509|webhook","webhook":{"configFile":"server: https://sso.lan"}}}`), LocalClusterAuthEndpoint{}},
	} {
		if got := test.spec.AuthEndpoint(); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
