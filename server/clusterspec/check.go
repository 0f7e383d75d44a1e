// What a cluster document has to keep beyond the shape of its fields.

package clusterspec

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/server/versions"
)

var (
	namePattern        = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,61}[a-z0-9]$`)
	namespacePattern   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	reservedName       = regexp.MustCompile(`^c-[a-z0-9]{5}$`)
	concurrencyPattern = regexp.MustCompile(`^(0|[1-9][0-9]*|([1-9][0-9]?|100)%)?$`)
	envNamePattern     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// AllowUnknownArgs in machineGlobalConfig or a selector's config, set to true, lets
// keys pass that the version data does not list.
const AllowUnknownArgs = "x-allow-unknown-args"

// checker collects complaints about one document.
type checker struct {
	text *strictyaml.Document
	errs strictyaml.Errors
}

func (c *checker) fail(at, format string, args ...any) {
	c.errs = append(c.errs, strictyaml.Error{Path: at, Line: c.text.LineOf(at), Reason: fmt.Sprintf(format, args...)})
}

// check is the list of rules, in the order of the document.
func check(doc Document, text *strictyaml.Document, known *versions.Data) strictyaml.Errors {
	c := &checker{text: text}
	c.identity(doc)
	if doc.APIVersion == DockerAPIVersion {
		c.docker(doc)
		return c.errs
	}
	if doc.Spec.Docker() {
		c.fail("spec.rancherKubernetesEngineConfig", "belongs to clusters of apiVersion %s, whose hosts run Docker", DockerAPIVersion)
		return c.errs
	}
	release, ok := c.version(doc.Spec.KubernetesVersion, known)
	c.environment(doc.Spec.AgentEnvVars)
	c.authEndpoint(doc.Spec.LocalClusterAuthEndpoint)
	rke := doc.Spec.RKEConfig
	if rke == nil {
		c.fail("spec.rkeConfig", "is missing; write rkeConfig: {} for a cluster of hosts that register themselves (importing clusters is not supported by this version of drover)")
		return c.errs
	}
	if ok {
		c.args("spec.rkeConfig.machineGlobalConfig", rke.MachineGlobalConfig, release)
		for i, s := range rke.MachineSelectorConfig {
			at := fmt.Sprintf("spec.rkeConfig.machineSelectorConfig[%d]", i)
			c.selector(at+".machineLabelSelector", s.MachineLabelSelector)
			c.args(at+".config", s.Config, release)
		}
	}
	c.upgrade(rke.UpgradeStrategy)
	c.directories(rke.DataDirectories)
	if n := rke.Networking; n != nil && !slices.Contains([]string{"", "dual", "ipv4", "ipv6"}, n.StackPreference) {
		c.fail("spec.rkeConfig.networking.stackPreference", "%q is none of dual, ipv4, ipv6", n.StackPreference)
	}
	if e := rke.ETCD; e != nil && e.SnapshotRetention < 0 {
		c.fail("spec.rkeConfig.etcd.snapshotRetention", "%d is less than 0", e.SnapshotRetention)
	}
	return c.errs
}

func (c *checker) identity(doc Document) {
	if doc.APIVersion != APIVersion && doc.APIVersion != DockerAPIVersion {
		c.fail("apiVersion", "is %q where %s belongs, or %s for hosts with Docker", doc.APIVersion, APIVersion, DockerAPIVersion)
	}
	if doc.Kind != Kind {
		c.fail("kind", "is %q where %s belongs", doc.Kind, Kind)
	}
	switch name := doc.Metadata.Name; {
	case name == "":
		c.fail("metadata.name", "is missing")
	case !namePattern.MatchString(name):
		c.fail("metadata.name", "%q is not 2 to 63 lower-case letters, digits and dashes that begin and end with a letter or digit", name)
	case name == "local", reservedName.MatchString(name):
		c.fail("metadata.name", "%q is a name that Rancher keeps for itself", name)
	}
	if !namespacePattern.MatchString(doc.Metadata.Namespace) {
		c.fail("metadata.namespace", "%q is not a namespace name", doc.Metadata.Namespace)
	}
}

// docker are the rules of clusters of Docker hosts.
func (c *checker) docker(doc Document) {
	if doc.Metadata.Namespace != DefaultNamespace {
		c.fail("metadata.namespace", "%q: clusters of %s have no namespace; leave it out", doc.Metadata.Namespace, DockerAPIVersion)
	}
	s := doc.Spec
	for _, other := range []struct {
		at    string
		given bool
	}{
		{"spec.kubernetesVersion", s.KubernetesVersion != ""}, {"spec.rkeConfig", s.RKEConfig != nil},
		{"spec.localClusterAuthEndpoint", s.LocalClusterAuthEndpoint != nil},
	} {
		if other.given {
			c.fail(other.at, "belongs to clusters of apiVersion %s; hosts with Docker join and are at hand, but nothing is provisioned on them yet", APIVersion)
		}
	}
	c.environment(s.AgentEnvVars)
	if !s.Docker() {
		c.fail("spec.rancherKubernetesEngineConfig", "is missing; write rancherKubernetesEngineConfig: {} for a cluster of hosts with Docker")
	}
}

func (c *checker) version(version string, known *versions.Data) (versions.Release, bool) {
	const at = "spec.kubernetesVersion"
	if version == "" {
		newest := known.List(versions.K3s)
		c.fail(at, "is missing; for example %s", newest[0])
		return versions.Release{}, false
	}
	if versions.RuntimeOf(version) != versions.K3s {
		c.fail(at, "%q: only k3s versions (v1.x.y+k3sN) can be provisioned by this version of drover", version)
		return versions.Release{}, false
	}
	release, ok := known.Release(version)
	if !ok {
		c.fail(at, "there is no data for %q; known are %s (a server can learn more with --version-data)", version, strings.Join(known.Nearest(version), ", "))
	}
	return release, ok
}

func (c *checker) args(at string, config map[string]any, release versions.Release) {
	allow, _ := config[AllowUnknownArgs].(bool)
	for _, key := range sortedKeys(config) {
		if key == AllowUnknownArgs {
			continue
		}
		arg, ok := release.ServerArgs[key]
		if !ok {
			arg, ok = release.AgentArgs[key]
		}
		if IsEmpty(config[key]) || !ok && !allow && (isZero(config[key]) || key == "cni") {
			// Rancher keeps a setting only where its data list it for the version: what a form for
			// another distribution leaves behind (profile: null, and k3s has no cni) is dropped.
			delete(config, key)
			continue
		}
		if !ok {
			if !allow {
				c.fail(at+"."+key, "is not a setting of %s, or one that drover sets itself; if you know better, add %s: true", release.Version, AllowUnknownArgs)
			}
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
		list, ok := value.([]any)
		if text, isText := value.(string); isText {
			list, ok = []any{text}, true
		}
		if !ok {
			return fmt.Sprintf("is %v where a list of texts belongs", value)
		}
		for i, item := range list {
			text, isText := item.(string)
			if !isText {
				return fmt.Sprintf("item %d is %v where text belongs", i, item)
			}
			if len(arg.Options) > 0 && !slices.Contains(arg.Options, text) {
				return fmt.Sprintf("item %d %q is none of %s", i, text, strings.Join(arg.Options, ", "))
			}
		}
	case "enum":
		if text, ok := value.(string); !ok || !slices.Contains(arg.Options, text) {
			return fmt.Sprintf("%v is none of %s", value, strings.Join(arg.Options, ", "))
		}
	case "int":
		if _, ok := value.(int64); !ok {
			return fmt.Sprintf("is %v where a whole number belongs", value)
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

func (c *checker) selector(at string, s *LabelSelector) {
	if s == nil {
		return
	}
	for i, r := range s.MatchExpressions {
		at := fmt.Sprintf("%s.matchExpressions[%d]", at, i)
		if r.Key == "" {
			c.fail(at+".key", "is missing")
		}
		switch r.Operator {
		case "In", "NotIn":
			if len(r.Values) == 0 {
				c.fail(at+".values", "is empty, but %s needs values", r.Operator)
			}
		case "Exists", "DoesNotExist":
			if len(r.Values) > 0 {
				c.fail(at+".values", "is not empty, but %s takes no values", r.Operator)
			}
		default:
			c.fail(at+".operator", "%q is none of In, NotIn, Exists, DoesNotExist", r.Operator)
		}
	}
}

func (c *checker) environment(vars []EnvVar) {
	for i, v := range vars {
		at := fmt.Sprintf("spec.agentEnvVars[%d]", i)
		switch {
		case !envNamePattern.MatchString(v.Name):
			c.fail(at+".name", "%q is not a valid name of an environment variable", v.Name)
		case v.Name == "CATTLE_AGENT_VAR_DIR":
			c.fail(at+".name", "use spec.rkeConfig.dataDirectories.systemAgent instead of CATTLE_AGENT_VAR_DIR")
		case strings.ContainsAny(v.Value, "\x00\n"):
			c.fail(at+".value", "has a line break or a NUL byte")
		case strings.EqualFold(v.Name, "NO_PROXY") && strings.Contains(v.Value, " "):
			c.fail(at+".value", "has a space; entries are separated by commas alone")
		}
	}
}

func (c *checker) authEndpoint(e *LocalClusterAuthEndpoint) {
	if e == nil {
		return
	}
	if e.CACerts != "" && e.FQDN == "" {
		c.fail("spec.localClusterAuthEndpoint.caCerts", "needs fqdn beside it")
	}
	if e.Enabled {
		c.fail("spec.localClusterAuthEndpoint.enabled", "the authorized cluster endpoint is not supported by this version of drover; kubectl works through the server")
	}
}

func (c *checker) upgrade(u *UpgradeStrategy) {
	if u == nil {
		return
	}
	for at, value := range map[string]string{"controlPlaneConcurrency": u.ControlPlaneConcurrency, "workerConcurrency": u.WorkerConcurrency} {
		if !concurrencyPattern.MatchString(value) || len(value) > 10 {
			c.fail("spec.rkeConfig.upgradeStrategy."+at, "%q is neither a whole number nor a percentage from 1%% to 100%%", value)
		}
	}
	for at, drain := range map[string]*DrainOptions{"controlPlaneDrainOptions": u.ControlPlaneDrainOptions, "workerDrainOptions": u.WorkerDrainOptions} {
		if drain != nil && drain.Enabled {
			c.fail("spec.rkeConfig.upgradeStrategy."+at+".enabled", "draining is not supported by this version of drover")
		}
	}
}

func (c *checker) directories(d *DataDirectories) {
	if d == nil {
		return
	}
	seen := map[string]string{}
	for _, dir := range []struct{ name, value string }{{"k8sDistro", d.K8sDistro}, {"provisioning", d.Provisioning}, {"systemAgent", d.SystemAgent}} {
		if dir.value == "" {
			continue
		}
		at := "spec.rkeConfig.dataDirectories." + dir.name
		if !path.IsAbs(dir.value) || path.Clean(dir.value) != dir.value || dir.value == "/" || strings.ContainsAny(dir.value, "\"'`*?#~=%$|&;<>{}[]()\x00\n ") {
			c.fail(at, "%q is not an absolute, clean path of plain characters", dir.value)
			continue
		}
		for other, name := range seen {
			if other == dir.value || strings.HasPrefix(dir.value, other+"/") || strings.HasPrefix(other, dir.value+"/") {
				c.fail(at, "%q and %s (%q) are the same or one inside the other", dir.value, name, other)
			}
		}
		seen[dir.value] = dir.name
	}
}

// CheckChange refuses changes that a cluster cannot take. Running are the Kubernetes versions that its control plane and
// nodes report; a version that was asked for and never ran can be taken back.
func CheckChange(before, after Spec, running ...string) error {
	if before.Docker() != after.Docker() {
		return strictyaml.Errors{{Path: "apiVersion", Reason: "a cluster of that name exists and is of the other kind, which cannot be changed: " + APIVersion + " or " + DockerAPIVersion}}
	}
	if before.RKEConfig == nil || after.RKEConfig == nil {
		return nil
	}
	if dataDirectories(before) != dataDirectories(after) {
		return strictyaml.Errors{{Path: "spec.rkeConfig.dataDirectories", Reason: "cannot be changed once the cluster exists"}}
	}
	if versions.RuntimeOf(before.KubernetesVersion) != versions.RuntimeOf(after.KubernetesVersion) {
		return strictyaml.Errors{{Path: "spec.kubernetesVersion", Reason: fmt.Sprintf("the distribution cannot be changed from that of %s to that of %s", before.KubernetesVersion, after.KubernetesVersion)}}
	}
	for _, version := range running {
		if versions.Compare(after.KubernetesVersion, version) < 0 {
			return strictyaml.Errors{{Path: "spec.kubernetesVersion", Reason: fmt.Sprintf("a cluster cannot go back from %s, which runs, to %s", version, after.KubernetesVersion)}}
		}
	}
	return nil
}

func dataDirectories(s Spec) DataDirectories {
	if s.RKEConfig.DataDirectories == nil {
		return DataDirectories{}
	}
	return *s.RKEConfig.DataDirectories
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

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
