// The version, the settings of the distribution that it takes, and the authorized cluster endpoint of any kind of cluster.

package clusterspec

import (
	"fmt"
	"strings"

	"github.com/drover-project/drover/installers/versions"
)

// AllowUnknownArgs is allowUnknown.
const AllowUnknownArgs = allowUnknown

// version finds what is known of the version, or of its neighbour; false where it is refused.
func (c *checker) version(spec Spec, known *versions.Data) (versions.Release, bool) {
	const at = "spec.kubernetesVersion"
	version := spec.KubernetesVersion
	if version == "" {
		c.fail(at, "is missing; for example %s or %s", known.Default(versions.K3s), known.Default(versions.RKE2))
		return versions.Release{}, false
	}
	release, ok := known.Permissive(version)
	if !ok {
		c.fail(at, "%q is not a version of k3s or RKE2, as in %s or %s", version, known.Default(versions.K3s), known.Default(versions.RKE2))
		return release, false
	}
	if !release.Known && (spec.RKEConfig == nil || !allowsUnknown(spec.RKEConfig.MachineGlobalConfig)) {
		c.fail(at, "there is no data for %q; known are %s (a server can learn more with --version-data; to go without data of it, with every setting passed on unchecked, write machineGlobalConfig: {%s: true})",
			version, strings.Join(known.Nearest(version), ", "), AllowUnknownArgs)
		return release, false
	}
	return release, true
}

// settings are the rules of all config maps.
func (c *checker) settings(rke *RKEConfig, release versions.Release) {
	check := func(at string, config, base map[string]any) {
		checkRanges(config, base, func(key, reason string) {
			if allowsUnknown(config) {
				c.notes = append(c.notes, fmt.Sprintf("%s.%s: %s", at, key, reason))
				return
			}
			c.fail(at+"."+key, "%s (where a cluster runs with it, or you know better, add %s: true)", reason, AllowUnknownArgs)
		})
		notes := checkArgs(config, release, func(key, reason string) { c.fail(at+"."+key, "%s", reason) })
		for _, note := range notes {
			c.notes = append(c.notes, at+"."+note)
		}
	}
	check("spec.rkeConfig.machineGlobalConfig", rke.MachineGlobalConfig, nil)
	for i, s := range rke.MachineSelectorConfig {
		check(fmt.Sprintf("spec.rkeConfig.machineSelectorConfig[%d].config", i), s.Config, rke.MachineGlobalConfig)
	}
}

// webhookAddress is where the webhook of the endpoint answers on each control-plane host.
const webhookAddress = ":6440/v1/authenticate"

// AuthEndpoint is the direct way into the cluster. Clusters of RKE1 have it where authentication.strategy
// names webhook, unless the webhook is one of their owner's own.
func (s Spec) AuthEndpoint() LocalClusterAuthEndpoint {
	if s.RKE1() {
		c, err := s.RKE1Config()
		if err != nil {
			return LocalClusterAuthEndpoint{} // nothing is done for a document that cannot be read
		}
		w := c.Authentication.Webhook
		own := w != nil && w.ConfigFile != "" && !strings.Contains(w.ConfigFile, webhookAddress)
		return LocalClusterAuthEndpoint{Enabled: c.Authentication.Uses("webhook") && !own}
	}
	if s.LocalClusterAuthEndpoint == nil || !s.LocalClusterAuthEndpoint.Enabled {
		return LocalClusterAuthEndpoint{}
	}
	return *s.LocalClusterAuthEndpoint
}
