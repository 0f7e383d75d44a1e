// The texts that Kubernetes of RKE1 finds in /etc/kubernetes. The checksums of some are in the
// environment of containers, so that a changed text makes the container new; their bytes are therefore those of the peer.
//
// Wire source: rancher/rke cluster/defaults.go, cluster/cluster.go, services/kubeapi.go; sigs.k8s.io/yaml for spaces and quotes.

package desired

import (
	"crypto/md5" // #nosec G501 -- rke's own checksums of files; nothing is secured by it
	"encoding/hex"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/versions"
)

// sumOf is the peer's checksum of a text: MD5 in hex. Nothing is protected by it.
func sumOf(text string) string {
	b := md5.Sum([]byte(text)) // #nosec G401 -- see the import
	return hex.EncodeToString(b[:])
}

// auditText is the API server's audit policy. It returns an error where the policy cannot be written.
func auditText(policy *config.AuditPolicy) (string, error) { return write("audit policy", policy) }

// write is YAML with sorted keys, as Kubernetes' programs write it.
func write(what string, of any) (string, error) {
	b, err := yaml.Marshal(of)
	if err != nil {
		return "", fmt.Errorf("write the %s: %w", what, err)
	}
	return string(b), nil
}

// The plugins that always have a configuration.
const (
	eventRateLimit = "EventRateLimit"
	podSecurity    = "PodSecurity"
)

// admissionText is the API server's admission configuration in a version of Kubernetes: of two plugins that always have one,
// and of the owner's others. The peer drops those without a word. It returns an error where a plugin's configuration cannot be written.
func admissionText(c config.KubeAPI, version versions.Version) (string, error) {
	all := config.AdmissionConfiguration{TypeMeta: config.TypeMeta{Kind: "AdmissionConfiguration", APIVersion: "apiserver.config.k8s.io/v1"}}
	own := map[string]config.AdmissionPlugin{}
	var others []config.AdmissionPlugin
	if a := c.AdmissionConfiguration; a != nil {
		for _, plugin := range a.Plugins {
			if own[plugin.Name] = plugin; plugin.Name != eventRateLimit && plugin.Name != podSecurity {
				others = append(others, plugin)
			}
		}
	}
	limits, err := eventLimits(c)
	if err != nil {
		return "", err
	}
	defaults := []config.AdmissionPlugin{{Name: eventRateLimit, Configuration: limits}}
	if version.AtLeast(1, 23) {
		defaults = append(defaults, config.AdmissionPlugin{Name: podSecurity, Configuration: podSecurityDefaults(c, version)})
	}
	for _, plugin := range defaults {
		if given, ok := own[plugin.Name]; ok {
			plugin = given
		}
		all.Plugins = append(all.Plugins, plugin)
	}
	all.Plugins = append(all.Plugins, others...)
	return write("admission configuration", all)
}

func eventLimits(c config.KubeAPI) (map[string]any, error) {
	limits := config.EventRateLimits{Limits: []config.EventLimit{{Type: "Server", QPS: 5000, Burst: 20000}}}
	if e := c.EventRateLimit; e != nil && e.Configuration != nil {
		limits = *e.Configuration
	}
	if limits.TypeMeta == (config.TypeMeta{}) {
		limits.TypeMeta = config.TypeMeta{Kind: "Configuration", APIVersion: "eventratelimit.admission.k8s.io/v1alpha1"}
	}
	b, err := json.Marshal(limits)
	var m map[string]any
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return nil, fmt.Errorf("write services.kube-api.event_rate_limit: %w", err)
	}
	return m, nil
}

// podSecurityDefaults is the plugin's configuration for pod_security_configuration.
func podSecurityDefaults(c config.KubeAPI, version versions.Version) map[string]any {
	of := "pod-security.admission.config.k8s.io/v1"
	if !version.AtLeast(1, 25) {
		of += "beta1"
	}
	defaults, exemptions := map[string]any{}, map[string]any{}
	modes, level := []string{"enforce"}, "privileged"
	if c.PodSecurityConfiguration == "restricted" {
		modes, level = []string{"enforce", "audit", "warn"}, "restricted"
		exemptions["namespaces"] = []string{"ingress-nginx", "kube-system"}
	}
	for _, mode := range modes {
		defaults[mode], defaults[mode+"-version"] = level, "latest"
	}
	return map[string]any{"apiVersion": of, "kind": "PodSecurityConfiguration", "defaults": defaults, "exemptions": exemptions}
}
