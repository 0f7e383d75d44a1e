// The version, and the settings of the distribution that it takes.

package clusterspec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/versions"
)

// AllowUnknownArgs in machineGlobalConfig or a selector's config, set to true, lets
// keys pass that the version data do not list; in machineGlobalConfig also a version that they do not have.
const AllowUnknownArgs = "x-allow-unknown-args"

func allowsUnknown(config map[string]any) bool {
	allow, _ := config[AllowUnknownArgs].(bool)
	return allow
}

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
	c.args("spec.rkeConfig.machineGlobalConfig", rke.MachineGlobalConfig, release)
	for i, s := range rke.MachineSelectorConfig {
		c.args(fmt.Sprintf("spec.rkeConfig.machineSelectorConfig[%d].config", i), s.Config, release)
	}
}

func (c *checker) args(at string, config map[string]any, release versions.Release) {
	allow := allowsUnknown(config) || !release.Known
	for _, key := range sortedKeys(config) {
		if key == AllowUnknownArgs {
			continue
		}
		arg, ok := release.Arg(key)
		if IsEmpty(config[key]) || !ok && !allow && (isZero(config[key]) || key == "cni") {
			// Rancher keeps a setting only where its data list it for the version: what a form for
			// another distribution leaves behind (profile: null, and k3s has no cni) is dropped.
			if !isZero(config[key]) {
				c.notes = append(c.notes, fmt.Sprintf("%s.%s: %s has no such setting, so %v is left out", at, key, release.Version, config[key]))
			}
			delete(config, key)
			continue
		}
		if !ok && !allow {
			c.fail(at+"."+key, "is not a setting of %s, or one that drover sets itself; if you know better, add %s: true", release.Version, AllowUnknownArgs)
		}
		if !ok || !release.Known {
			continue
		}
		if reason := argFault(arg, config[key]); reason != "" {
			c.fail(at+"."+key, "%s", reason)
		}
	}
}

func argFault(arg versions.Arg, value any) string {
	switch arg.Type {
	case "boolean", "bool":
		if _, ok := value.(bool); !ok {
			return fmt.Sprintf("is %v where true or false belongs", value)
		}
	case "array":
		return listFault(arg, value)
	case "enum":
		if text, ok := value.(string); !ok || !slices.Contains(arg.Options, text) {
			return fmt.Sprintf("%v is none of %s", value, strings.Join(arg.Options, ", "))
		}
	case "int":
		if _, ok := value.(int64); !ok {
			return fmt.Sprintf("is %v where a whole number belongs", value)
		}
	case "map":
		if _, ok := value.(map[string]any); !ok {
			return fmt.Sprintf("is %v where a mapping belongs", value)
		}
	default:
		switch value.(type) {
		case string, int64, float64, bool:
		default:
			return "is a list or a mapping where text belongs"
		}
	}
	return ""
}

// listFault is that of a list of texts, for which one text stands as well.
func listFault(arg versions.Arg, value any) string {
	list, ok := value.([]any)
	if text, isText := value.(string); isText {
		list, ok = []any{text}, true
	}
	if !ok {
		return fmt.Sprintf("is %v where a list of texts belongs", value)
	}
	items := make([]string, len(list))
	for i, item := range list {
		if items[i], ok = item.(string); !ok {
			return fmt.Sprintf("item %d is %v where text belongs", i, item)
		}
	}
	// Options such as "multus,canal" are for all items together.
	if len(arg.Options) == 0 || slices.Contains(arg.Options, strings.Join(items, ",")) {
		return ""
	}
	for i, item := range items {
		if !slices.Contains(arg.Options, item) {
			return fmt.Sprintf("item %d %q is none of %s", i, item, strings.Join(arg.Options, ", "))
		}
	}
	return ""
}

// Items are the items of a setting whose value is a list, or a text with commas between them as in cni: "multus,calico".
func Items(value any) []string {
	var texts []string
	switch v := value.(type) {
	case nil:
	case []any:
		for _, item := range v {
			texts = append(texts, fmt.Sprint(item))
		}
	default:
		texts = []string{fmt.Sprint(v)}
	}
	var items []string
	for item := range strings.SplitSeq(strings.Join(texts, ","), ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// IsEmpty says that a setting has no value at all.
func IsEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	}
	return false
}

// isZero says that a setting's value asks for nothing.
func isZero(value any) bool {
	switch v := value.(type) {
	case bool:
		return !v
	case int64:
		return v == 0
	case float64:
		return v == 0
	case map[string]any:
		return len(v) == 0
	}
	return IsEmpty(value)
}
