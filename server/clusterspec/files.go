// What becomes files on hosts: files from Secrets and ConfigMaps, manifests, registries, and how much
// of all of it there may be.

package clusterspec

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans/forms"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/plans/strictyaml"
)

var permissionsPattern = regexp.MustCompile(`^0?[0-7]{3,4}$`)

// maxSpec is the size that the spec of a cluster may have as JSON: it comes to each host in one Kubernetes
// object, and those have at most 1 MiB.
const maxSpec = 1 << 20

// configDir is where the distribution reads its configuration from, file by file; the last one wins.
func configDir(runtime versions.Runtime) string {
	return "/etc/rancher/" + string(runtime) + "/config.yaml.d"
}

func (c *checker) files(list []SelectorFiles, runtime versions.Runtime) {
	for i, files := range list {
		at := fmt.Sprintf("spec.rkeConfig.machineSelectorFiles[%d]", i)
		c.selector(at+".machineLabelSelector", files.MachineLabelSelector)
		seen := map[string]string{}
		for j, source := range files.FileSources {
			c.source(fmt.Sprintf("%s.fileSources[%d]", at, j), source, runtime, seen)
		}
	}
}

// source checks one Secret or ConfigMap; seen are the paths of those before it.
func (c *checker) source(at string, source FileSource, runtime versions.Runtime, seen map[string]string) {
	o, secret := source.Object()
	switch {
	case o == nil:
		c.fail(at, "names neither a secret nor a configMap")
		return
	case secret && source.ConfigMap.named():
		c.fail(at, "names both a secret and a configMap; write them as two sources")
		return
	case secret:
		at += ".secret"
	default:
		at += ".configMap"
	}
	if !objects.ValidName(o.Name) {
		c.fail(at+".name", "%.300q is not the name of a Kubernetes object", o.Name)
	}
	if len(o.Items) == 0 {
		c.fail(at+".items", "is empty; list the keys that become files")
	}
	c.permissions(at+".defaultPermissions", o.DefaultPermissions)
	for i, item := range o.Items {
		at := fmt.Sprintf("%s.items[%d]", at, i)
		if !objects.ValidKey(item.Key) {
			c.fail(at+".key", "%.300q is not a key of a Secret or ConfigMap", item.Key)
		}
		c.permissions(at+".permissions", item.Permissions)
		if sum, err := base64.StdEncoding.DecodeString(item.Hash); err != nil || len(sum) != 0 && len(sum) != sha256.Size {
			c.fail(at+".hash", "%.100q is not a SHA-256 in base64", item.Hash)
		}
		switch first, twice := seen[item.Path]; {
		case !cleanPath(item.Path):
			c.fail(at+".path", "%.300q is not an absolute, clean path", item.Path)
		case item.Path == configDir(runtime)+"/50-rancher.yaml":
			c.fail(at+".path", "%q is the file in which drover writes machineGlobalConfig; use that", item.Path)
		case twice:
			c.fail(at+".path", "%q is the path of %s, too", item.Path, first)
		default:
			seen[item.Path] = at
		}
	}
}

func (c *checker) permissions(at, text string) {
	if text != "" && !permissionsPattern.MatchString(text) {
		c.fail(at, "%.40q is not an octal number such as \"0600\"", text)
	}
}

// manifest refuses what the control plane could not apply: a failed addon is seen on a host alone.
func (c *checker) manifest(text string) {
	const at = "spec.rkeConfig.additionalManifest"
	docs, err := strictyaml.Read(strictyaml.Source{Private: true}, []byte(text)) // it may hold Secrets
	errs, _ := errors.AsType[strictyaml.Errors](err)
	for _, doc := range docs {
		var object struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		bad := doc.Decode(&object, strictyaml.Options{Ignore: strictyaml.IgnoreAll})
		if bad == nil && (object.APIVersion == "" || object.Kind == "") {
			bad = strictyaml.Errors{{Line: doc.Line(), Reason: "the document has no apiVersion and kind"}}
		}
		errs = append(errs, bad...)
	}
	for _, one := range errs {
		c.fail(at, "of the manifest, %s", one)
	}
}

func (c *checker) registries(r *Registries) {
	if r == nil {
		return
	}
	const at = "spec.rkeConfig.registries."
	for _, name := range sortedKeys(r.Mirrors) {
		mirror := r.Mirrors[name]
		for i, endpoint := range mirror.Endpoint {
			address := endpoint
			if !strings.Contains(address, "://") {
				address = "https://" + address // as k3s, RKE2 and the agent read it
			}
			u, err := url.Parse(address)
			at := fmt.Sprintf("%smirrors.%s.endpoint[%d]", at, name, i)
			switch {
			case strings.Contains(endpoint, "@"):
				c.fail(at, "has credentials; name a Secret in the registry's authConfigSecretName, in registries.configs")
			case err != nil || u.Scheme != "https" && u.Scheme != "http" || !forms.Host(u.Host) || u.RawQuery != "" || u.Fragment != "":
				c.fail(at, "%.300q is not a URL, such as https://mirror.example.com, nor a host or host:port, which is asked by TLS", endpoint)
			}
		}
		for _, pattern := range sortedKeys(mirror.Rewrite) {
			if _, err := regexp.Compile(pattern); err != nil {
				c.fail(at+"mirrors."+name+".rewrite", "%.300q is not a regular expression", pattern)
			}
		}
	}
	for _, host := range sortedKeys(r.Configs) {
		for _, one := range []struct{ field, name string }{{"authConfigSecretName", r.Configs[host].AuthConfigSecretName}, {"tlsSecretName", r.Configs[host].TLSSecretName}} {
			if one.name != "" && !objects.ValidName(one.name) {
				c.fail(at+"configs."+host+"."+one.field, "%.300q is not the name of a Secret", one.name)
			}
		}
	}
}

// size refuses what would not fit into the object by which a host gets it.
func (c *checker) size(spec Spec) {
	total := max(jsonSize(spec), planSize(spec.RKEConfig))
	if total <= maxSpec {
		return
	}
	type part struct {
		name string
		size int
	}
	rke := spec.RKEConfig
	parts := []part{
		{"additionalManifest", len(rke.AdditionalManifest)}, {"chartValues", jsonSize(rke.ChartValues)}, {"machineGlobalConfig", jsonSize(rke.MachineGlobalConfig)},
		{"machineSelectorConfig", jsonSize(rke.MachineSelectorConfig)}, {"machineSelectorFiles", jsonSize(rke.MachineSelectorFiles)}, {"registries", jsonSize(rke.Registries)},
		{"upgradeStrategy", jsonSize(rke.UpgradeStrategy)}, {"agentEnvVars", jsonSize(spec.AgentEnvVars)},
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.size, a.size) })
	var largest []string
	for _, p := range parts[:3] {
		largest = append(largest, fmt.Sprintf("%s %d KiB", p.name, p.size>>10))
	}
	c.fail("spec", "has %d KiB, more than the %d KiB that a host can be given; the largest parts are %s", total>>10, maxSpec>>10, strings.Join(largest, ", "))
}

// planReserve is what a plan has beside what its owner wrote, in bytes: scripts, probes, addresses and the names of files.
const planReserve = 32 << 10

// MaxPlan is how large the plan of a machine can be, in bytes.
const MaxPlan = maxSpec

// PlanSize is how large the plan of a machine becomes with files of that many bytes beside what the document itself has.
func PlanSize(rke *RKEConfig, files int) int {
	return planSize(rke) + base64.StdEncoding.EncodedLen(files)
}

// planSize is how large the plan of a machine becomes: it has each file in base64, and the registries twice.
func planSize(rke *RKEConfig) int {
	files := len(rke.AdditionalManifest) + jsonSize(rke.ChartValues) + jsonSize(rke.MachineGlobalConfig)
	return base64.StdEncoding.EncodedLen(files+2*jsonSize(rke.Registries)) + planReserve
}

func jsonSize(value any) int {
	text, err := json.Marshal(value)
	if err != nil {
		return 0 // what was read from a document can be written
	}
	return len(text)
}
