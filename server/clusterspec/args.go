// The settings of a distribution as a cluster's document has them: what is refused of them, and what of them
// reaches a host. A document is stored as it came; what has no value is left out here, when a plan is made.

package clusterspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans/forms"
)

// allowUnknown in machineGlobalConfig or a selector's config, set to true, lets
// keys pass that the version data do not list; in machineGlobalConfig also a version that they do not have.
const allowUnknown = "x-allow-unknown-args"

// allowsUnknown says whether a config map does.
func allowsUnknown(config map[string]any) bool {
	allow, _ := config[allowUnknown].(bool)
	return allow
}

// checkArgs looks at the settings of one config map, says of each that is wrong why it is refused, and returns notes of what is
// taken and reaches no host, or not as it is meant. A note begins with its key.
func checkArgs(config map[string]any, release versions.Release, fail func(key, reason string)) (notes []string) {
	allow := allowsUnknown(config) || !release.Known
	for _, key := range slices.Sorted(maps.Keys(config)) {
		value := config[key]
		arg, ok := release.Arg(key)
		switch field := fieldOf(key); {
		case key == allowUnknown || IsEmptyArg(value):
			continue
		case !ok && !allow && leftOut(key, value):
			if !isZero(value) {
				notes = append(notes, fmt.Sprintf("%s: %s has no such setting, so %v is left out", key, release.Version, value))
			}
			continue
		case versions.Reserved(key):
			fail(key, fmt.Sprintf("is set by drover itself; use %s instead", field))
		case ok || allow:
		case field != "":
			fail(key, fmt.Sprintf("is not a setting here; use %s instead", field))
		default:
			fail(key, fmt.Sprintf("is not a setting of %s; if you know better, add %s: true", release.Version, allowUnknown))
		}
		if !ok || !release.Known {
			continue
		}
		reason := argFault(arg, value)
		if reason == "" {
			reason = formFault(key, fmt.Sprint(value), release.Runtime)
		}
		switch {
		case reason == "":
		case key == "disable" && listFault(versions.Arg{}, value) == "":
			// The data list what forms offer; the distribution leaves out any packaged component by its name.
			notes = append(notes, fmt.Sprintf("%s: %s, which %s is known to bring along; it is passed on as it is", key, reason, release.Version))
		default:
			fail(key, reason)
		}
	}
	return notes
}

// fieldOf is what is used in place of a setting that drover makes of something else; empty for other settings.
func fieldOf(key string) string {
	switch key {
	case "data-dir":
		return "spec.rkeConfig.dataDirectories.k8sDistro"
	case "private-registry":
		return "spec.rkeConfig.registries"
	case "node-label":
		return "--label of the registration command, or labels of the machine,"
	case "node-taint":
		return "--taints of the registration command"
	case "node-name", "with-node-id":
		return "--node-name of the registration command"
	case "node-ip", "advertise-address":
		return "--internal-address of the registration command"
	case "node-external-ip":
		return "--address of the registration command"
	case "cluster-reset", "cluster-reset-restore-path":
		return "spec.rkeConfig.etcdSnapshotRestore"
	}
	switch {
	case strings.HasPrefix(key, "etcd-s3"):
		return "spec.rkeConfig.etcd.s3"
	case strings.HasPrefix(key, "etcd-snapshot-"), key == "etcd-disable-snapshots":
		return "spec.rkeConfig.etcd"
	case versions.Reserved(key):
		return "the registration command, which gives each host its server and token,"
	}
	return ""
}

// leftOut says that a setting that the version does not have stays in the document and reaches no host. Rancher keeps a setting
// only where its data list it for the version: what a form for another distribution leaves behind (profile: false, and
// k3s has no cni) asks for nothing.
func leftOut(key string, value any) bool { return isZero(value) || key == "cni" }

// MergeArgs adds the settings of one config map to those before it, as they reach a host. One without a value takes the value
// of before back.
func MergeArgs(into, from map[string]any, release versions.Release) {
	allow := allowsUnknown(from) || !release.Known
	for key, value := range from {
		arg, ok := release.Arg(key)
		switch {
		case key == allowUnknown || !ok && !allow && leftOut(key, value) && !IsEmptyArg(value):
		case IsEmptyArg(value):
			delete(into, key)
		default:
			into[key] = converted(arg, value)
		}
	}
}

// converted is a value in the type of its setting: documents have truth values as texts, too.
func converted(arg versions.Arg, value any) any {
	if truth, ok := truthText(value); ok && (arg.Type == "boolean" || arg.Type == "bool") {
		return truth
	}
	return value
}

// truthText is a truth value that is written as a text.
func truthText(value any) (truth, ok bool) {
	text, _ := value.(string)
	switch strings.ToLower(text) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

func argFault(arg versions.Arg, value any) string {
	switch arg.Type {
	case "boolean", "bool":
		if _, ok := value.(bool); ok {
			return ""
		}
		if _, ok := truthText(value); !ok {
			return fmt.Sprintf("is %#v where true or false belongs", value)
		}
	case "array":
		return listFault(arg, value)
	case "enum":
		if text, ok := value.(string); !ok || !slices.Contains(arg.Options, text) {
			reason := fmt.Sprintf("%v is none of %s", value, strings.Join(arg.Options, ", "))
			if strings.HasPrefix(text, "cis-") && slices.Contains(arg.Options, "cis") {
				reason += "; the profile of this version's benchmark is cis, without the number that it had before"
			}
			return reason
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

// formFault is that of a setting whose text has a form, by which the distribution starts or does not.
func formFault(key, text string, runtime versions.Runtime) (reason string) {
	switch key {
	case clusterCIDR, serviceCIDR:
		_, reason = forms.Ranges(text)
	case clusterDNS:
		_, reason = forms.Addresses(text)
	case "cluster-domain":
		reason = forms.Domain(text)
	case "service-node-port-range":
		reason = forms.PortRange(text)
	case "system-default-registry":
		return forms.Registry(text, runtime != versions.RKE2) // without the text, which can have a password in it
	}
	if reason == "" {
		return ""
	}
	return forms.Quoted(text) + " " + reason
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

// argItems are the items of a setting whose value is a list, or a text with commas between them as in cni: "multus,calico".
func argItems(value any) []string {
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

// IsEmptyArg says that a setting has no value at all.
func IsEmptyArg(value any) bool {
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
	return IsEmptyArg(value)
}

const (
	clusterCIDR = "cluster-cidr"
	serviceCIDR = "service-cidr"
	clusterDNS  = "cluster-dns"
)

// usualRanges are ranges where they are not set, of both distributions.
var usualRanges = map[string]string{clusterCIDR: "10.42.0.0/16", serviceCIDR: forms.ExampleRange}

// checkRanges looks at the ranges of one config map of a cluster together, with those of the settings that it is merged into. A
// map that has none is not looked at, nor are values that Check refuses.
func checkRanges(config, base map[string]any, fail func(key, reason string)) {
	value := func(key string) (text string, own bool) {
		if own = !IsEmptyArg(config[key]); own {
			return fmt.Sprint(config[key]), true
		}
		if _, back := config[key]; IsEmptyArg(base[key]) || back {
			return usualRanges[key], false
		}
		return fmt.Sprint(base[key]), false
	}
	podText, ownPods := value(clusterCIDR)
	serviceText, ownServices := value(serviceCIDR)
	dnsText, ownDNS := value(clusterDNS)
	services, wrong := forms.Ranges(serviceText)
	if wrong != "" {
		return
	}
	if pods, wrong := forms.Ranges(podText); wrong == "" && (ownPods || ownServices) {
		if reason := forms.Overlap(pods, services); reason != "" {
			key := serviceCIDR
			if ownPods {
				key = clusterCIDR
			}
			fail(key, reason)
		}
	}
	if dns, wrong := forms.Addresses(dnsText); wrong == "" && (ownDNS || ownServices) {
		key := serviceCIDR
		if ownDNS {
			key = clusterDNS
		}
		if reason := forms.Outside(dns, services); reason != "" {
			fail(key, reason)
		}
	}
}
