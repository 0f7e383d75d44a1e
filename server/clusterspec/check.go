// What a cluster document has to keep beyond the shape of its fields.

package clusterspec

import (
	"encoding/pem"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans/forms"
	"github.com/drover-project/drover/plans/strictyaml"
)

var (
	namePattern      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,61}[a-z0-9]$`) })
	namespacePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) })
	reservedName     = regexp.MustCompile(`^c-[a-z0-9]{5}$`)
	envNamePattern   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// checker collects complaints about one document, and notes of what it left out.
type checker struct {
	text  *strictyaml.Document
	errs  strictyaml.Errors
	notes []string
}

func (c *checker) fail(at, format string, args ...any) {
	c.errs = append(c.errs, strictyaml.Error{Path: at, Line: c.text.LineOf(at), Reason: fmt.Sprintf(format, args...)})
}

// check is the list of rules, in the order of the document.
func check(doc Document, text *strictyaml.Document, known *versions.Data) (strictyaml.Errors, []string) {
	c := &checker{text: text}
	c.identity(doc)
	switch {
	case doc.APIVersion == DockerAPIVersion:
		c.docker(doc)
	case doc.Spec.Docker():
		c.fail("spec.rancherKubernetesEngineConfig", "belongs to clusters of apiVersion %s, whose hosts run Docker", DockerAPIVersion)
	case doc.Spec.Imported():
		c.imported(doc)
	default:
		c.provisioned(doc, known)
	}
	return c.errs, c.notes
}

// imported are the rules of clusters that were made elsewhere.
func (c *checker) imported(doc Document) {
	c.environment(doc.Spec.AgentEnvVars)
	if doc.Spec.LocalClusterAuthEndpoint != nil && *doc.Spec.LocalClusterAuthEndpoint != (LocalClusterAuthEndpoint{}) {
		c.fail("spec.localClusterAuthEndpoint", "belongs to clusters that the server provisions: how the API servers of an imported cluster know people is not the server's to change")
	}
}

// provisioned are the rules of clusters of k3s and RKE2.
func (c *checker) provisioned(doc Document, known *versions.Data) {
	release, ok := c.version(doc.Spec, known)
	c.environment(doc.Spec.AgentEnvVars)
	c.authEndpoint(doc.Spec.LocalClusterAuthEndpoint)
	rke := doc.Spec.RKEConfig
	if rke == nil {
		c.fail("spec.rkeConfig", "is missing; write rkeConfig: {} for a cluster of hosts that register themselves, or take kubernetesVersion out too for one that is imported")
		return
	}
	if ok {
		c.settings(rke, release)
	}
	for i, s := range rke.MachineSelectorConfig {
		c.selector(fmt.Sprintf("spec.rkeConfig.machineSelectorConfig[%d].machineLabelSelector", i), s.MachineLabelSelector)
	}
	c.files(rke.MachineSelectorFiles, versions.RuntimeOf(doc.Spec.KubernetesVersion))
	for _, name := range sortedKeys(rke.ChartValues) {
		if _, ok := rke.ChartValues[name].(map[string]any); !ok && rke.ChartValues[name] != nil {
			c.fail("spec.rkeConfig.chartValues."+name, "is no mapping, and would not reach the chart; write its values as a mapping below the name of the chart, not as a text or list")
		}
	}
	c.manifest(rke.AdditionalManifest)
	c.registries(rke.Registries)
	c.upgrade(rke.UpgradeStrategy)
	c.directories(rke.DataDirectories, versions.RuntimeOf(doc.Spec.KubernetesVersion))
	if rke.ProvisionGeneration < 0 {
		c.fail("spec.rkeConfig.provisionGeneration", "%d is less than 0", rke.ProvisionGeneration)
	}
	if n := rke.Networking; n != nil && !slices.Contains([]string{"", "dual", "ipv4", "ipv6"}, n.StackPreference) {
		c.fail("spec.rkeConfig.networking.stackPreference", "%q is none of dual, ipv4, ipv6", n.StackPreference)
	}
	for _, fault := range append(rke.ETCD.Faults(doc.Spec.KubernetesVersion), rke.Requests.Faults()...) {
		c.fail("spec.rkeConfig."+fault.At, "%s", fault.Reason)
	}
	c.size(doc.Spec)
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
	case !namePattern().MatchString(name):
		c.fail("metadata.name", "%q is not 2 to 63 lower-case letters, digits and dashes that begin and end with a letter or digit", name)
	case name == "local", reservedName.MatchString(name):
		c.fail("metadata.name", "%q is a name that Rancher keeps for itself", name)
	}
	if !namespacePattern().MatchString(doc.Metadata.Namespace) {
		c.fail("metadata.namespace", "%q is not a namespace name", doc.Metadata.Namespace)
	}
	c.labels("metadata.labels", doc.Metadata.Labels)
	if text, set := doc.Metadata.Annotations[MaintenanceWindow]; set && text != "" {
		if _, err := ParseWindows(text); err != nil {
			c.fail("metadata.annotations."+MaintenanceWindow, "%v", err)
		} else if doc.Spec.Docker() && !doc.Spec.RKE1() {
			c.fail("metadata.annotations."+MaintenanceWindow, "maintenance windows are for clusters with a Kubernetes, and nothing is provisioned on these hosts; take it out")
		}
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
			c.fail(other.at, "belongs to clusters of apiVersion %s; what is wanted on hosts with Docker is in spec.rancherKubernetesEngineConfig", APIVersion)
		}
	}
	c.environment(s.AgentEnvVars)
	if !s.Docker() {
		c.fail("spec.rancherKubernetesEngineConfig", "is missing; write rancherKubernetesEngineConfig: {} for a cluster of hosts with Docker")
	}
}

func (c *checker) selector(at string, s *LabelSelector) {
	if s == nil {
		return
	}
	c.labels(at+".matchLabels", s.MatchLabels)
	for i, r := range s.MatchExpressions {
		at := fmt.Sprintf("%s.matchExpressions[%d]", at, i)
		if r.Key == "" {
			c.fail(at+".key", "is missing")
		} else if reason := forms.LabelKey(r.Key); reason != "" {
			c.fail(at+".key", "%s %s", forms.Quoted(r.Key), reason)
		}
		for j, value := range r.Values {
			if reason := forms.LabelValue(value); reason != "" {
				c.fail(fmt.Sprintf("%s.values[%d]", at, j), "%s %s", forms.Quoted(value), reason)
			}
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

// labels refuses what no machine and no cluster of Kubernetes can have.
func (c *checker) labels(at string, labels map[string]string) {
	for _, key := range sortedKeys(labels) {
		if reason := forms.LabelKey(key); reason != "" {
			c.fail(at, "%s %s", forms.Quoted(key), reason)
		}
		if reason := forms.LabelValue(labels[key]); reason != "" {
			c.fail(at, "%s of %s %s", forms.Quoted(labels[key]), forms.Quoted(key), reason)
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
	if e.FQDN != "" && !forms.Host(e.FQDN) {
		c.fail("spec.localClusterAuthEndpoint.fqdn", "%.300q is not a host or host:port; leave out https:// and what comes after the port", e.FQDN)
	}
	if e.CACerts != "" && e.FQDN == "" {
		c.fail("spec.localClusterAuthEndpoint.caCerts", "needs fqdn beside it")
	}
	if block, _ := pem.Decode([]byte(e.CACerts)); e.CACerts != "" && (block == nil || block.Type != "CERTIFICATE") {
		c.fail("spec.localClusterAuthEndpoint.caCerts", "is not a PEM certificate")
	}
}

// directories must not lie in each other, those that are where they are by default included.
func (c *checker) directories(d *DataDirectories, runtime versions.Runtime) {
	if d == nil {
		return
	}
	const at = "spec.rkeConfig.dataDirectories."
	dirs := []struct{ name, given, value string }{
		{"k8sDistro", d.K8sDistro, "/var/lib/rancher/" + string(runtime)},
		{"provisioning", d.Provisioning, "/var/lib/rancher/capr"},
		{"systemAgent", d.SystemAgent, "/var/lib/rancher/agent"},
	}
	for i := range dirs {
		dir := &dirs[i]
		if dir.given == "" {
			continue
		}
		dir.value = dir.given
		if !cleanPath(dir.value) || strings.ContainsAny(dir.value, "\"'`*?#~=%$|&;<>{}[]() ") {
			c.fail(at+dir.name, "%q is not an absolute, clean path of plain characters", dir.value)
			return
		}
	}
	for i, dir := range dirs {
		for _, other := range dirs[:i] {
			if !isBelow(dir.value, other.value) && !isBelow(other.value, dir.value) {
				continue
			}
			name := dir.name
			if dir.given == "" {
				name = other.name
			}
			c.fail(at+name, "%s (%q) and %s (%q) are the same or one inside the other", other.name, other.value, dir.name, dir.value)
		}
	}
}

// isBelow says whether a path is another or lies anywhere below it.
func isBelow(inner, outer string) bool {
	return inner == outer || strings.HasPrefix(inner, outer+"/")
}

// cleanPath says whether a path is absolute, not the root, and has but one spelling.
func cleanPath(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && p != "/" && !strings.ContainsAny(p, "\x00\n\r")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
