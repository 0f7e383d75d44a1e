// The trial run: what the rke command line would make of the files, found out before a person
// relies on them.

package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/config/check"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

// Finding is one thing for which the command line would not take the cluster over as it is.
type Finding struct {
	File, Problem string
}

// String is a line for people.
func (f Finding) String() string { return f.File + ": " + f.Problem }

type linter struct {
	Options
	files    map[string][]byte
	findings []Finding
}

func (l *linter) find(file, format string, args ...any) {
	l.findings = append(l.findings, Finding{File: file, Problem: fmt.Sprintf(format, args...)})
}

// Lint holds the files of an export to what a takeover needs; none of it reaches a host. Findings
// name files and fields and have no secrets in them.
func Lint(files []File, o Options) []Finding {
	l := &linter{Options: o, files: map[string][]byte{}}
	for _, f := range files {
		l.files[f.Name] = f.Content
	}
	for _, name := range []string{ConfigFile, StateFile, KubeconfigFile, ReadmeFile, SumsFile} {
		if len(l.files[name]) == 0 {
			l.find(name, "is missing")
		}
	}
	if len(l.findings) > 0 {
		return l.findings
	}
	l.sums(files)
	c, s := l.config(), l.state()
	if c == nil || s == nil {
		return l.findings
	}
	l.parts(c, s)
	l.trialRun(c, s)
	if !bytes.Equal(l.files[KubeconfigFile], []byte(s.Desired.Certificates[pki.Admin].Config)) {
		l.find(KubeconfigFile, "is not the kubeconfig of %s in %s", pki.Admin, StateFile)
	}
	return l.findings
}

func (l *linter) sums(files []File) {
	rest := slices.DeleteFunc(slices.Clone(files), func(f File) bool { return f.Name == SumsFile })
	if !bytes.Equal(l.files[SumsFile], sums(rest)) {
		l.find(SumsFile, "are not the checksums of the files")
	}
}

// config reads cluster.yml as the command line does; nil where it could not.
func (l *linter) config() *config.Cluster {
	file, err := config.Parse(strictyaml.Source{File: ConfigFile, Private: true}, l.files[ConfigFile])
	if err != nil {
		l.find(ConfigFile, "%v", err)
		return nil
	}
	for _, w := range file.Warnings {
		l.find(ConfigFile, "%v", w)
	}
	filled := config.WithDefaults(file.Cluster, l.known())
	errs, _ := check.Cluster(filled, l.known(), file)
	for _, e := range errs {
		l.find(ConfigFile, "%v", e)
	}
	for _, r := range filled.PrivateRegistries {
		if twice := r.URL + "/" + r.URL + "/"; r.IsDefault && r.URL != "" && strings.Contains(string(l.files[ConfigFile]), twice) {
			l.find(ConfigFile, "system_images: have the registry %s twice before their names", r.URL)
		}
	}
	return &filled
}

// state reads cluster.rkestate, which is whole and good or nothing.
func (l *linter) state() *state.State {
	text := l.files[StateFile]
	s, err := state.Decode(text)
	if err != nil {
		l.find(StateFile, "%v: it is cut off or damaged, and the command line would make new certificates", err)
		return nil
	}
	if err := s.Check(state.Against{}); err != nil {
		l.find(StateFile, "%v", err)
	}
	if s.Desired.Config == nil || s.Current.Config == nil {
		l.find(StateFile, "lacks a rkeConfig in desiredState or currentState; the command line would take the cluster for a new one")
		return nil
	}
	l.entries(text)
	return s
}

// Fields of an entry; each is on the wire, also when it is empty.
var (
	always   = []string{"certificatePEM", "keyPEM", "name", "commonName", "envName", "path", "keyEnvName", "keyPath"}
	ofConfig = []string{"config", "configEnvName", "configPath"}
	maybe    = []string{"ouName"}
)

// entries looks at the text itself: a field that is missing there is the empty string once it is read.
func (l *linter) entries(text []byte) {
	var raw map[string]struct {
		Certificates map[string]map[string]json.RawMessage `json:"certificatesBundle"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		l.find(StateFile, "its certificates are not in the form of entries with fields")
		return
	}
	for _, part := range slices.Sorted(maps.Keys(raw)) {
		bundle := raw[part].Certificates
		for _, name := range []string{pki.CA, pki.RequestHeaderCA, pki.APIServer, pki.ServiceAccount, pki.ControllerManager, pki.Scheduler, pki.Proxy, pki.Node, pki.Admin, pki.ProxyClient} {
			if bundle[name] == nil {
				l.find(StateFile, "%s.certificatesBundle.%s: is missing", part, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(bundle)) {
			if fields := lacking(name, bundle[name]); len(fields) > 0 {
				l.find(StateFile, "%s.certificatesBundle.%s: lacks %s", part, name, strings.Join(fields, ", "))
			}
		}
	}
}

// lacking are the fields that an entry should have and has not.
func lacking(name string, entry map[string]json.RawMessage) []string {
	filled := slices.Clone(always)
	if name == pki.EtcdClientCA {
		filled = slices.DeleteFunc(filled, func(field string) bool { return field == "keyPEM" })
	}
	if hasKubeconfig(name) {
		filled = append(filled, ofConfig...)
	}
	var fields []string
	for _, field := range slices.Concat(always, ofConfig, maybe) {
		value, there := entry[field]
		if !there || slices.Contains(filled, field) && (string(value) == `""` || string(value) == "null") {
			fields = append(fields, field)
		}
	}
	return fields
}

// hasKubeconfig says whether an entry has the three fields of a kubeconfig filled in.
func hasKubeconfig(name string) bool {
	return name != pki.CA && name != pki.APIServer && name != pki.ServiceAccount && !strings.HasPrefix(name, "kube-etcd") && !strings.HasPrefix(name, "kube-kubelet")
}

// parts compares the three places that have the nodes, and both parts of the state.
func (l *linter) parts(c *config.Cluster, s *state.State) {
	written, desired, deployed := addresses(c), addresses(s.Desired.Config), addresses(s.Current.Config)
	if !slices.Equal(written, desired) {
		l.find(ConfigFile, "nodes: are %s in this order, and in the state %s: names in certificates and flags follow the order", list(written), list(desired))
	}
	for _, n := range c.Nodes {
		if workerOnly(n) && !slices.Contains(deployed, n.Address) {
			l.find(StateFile, "currentState.rkeConfig.nodes: lack the worker %s; the command line would take it for a new host", n.Address)
		}
	}
	if s.Current.Encryption != s.Desired.Encryption && !l.Unfinished {
		l.find(StateFile, "encryptionConfig: differs between desiredState and currentState")
	}
	differences, err := Differences(s, l.known())
	switch {
	case err != nil:
		l.find(StateFile, "%v", err)
	case len(differences) > 0 && !l.Unfinished:
		l.find(StateFile, "desiredState and currentState differ in %s", list(differences))
	}
}

func addresses(c *config.Cluster) []string {
	var all []string
	for _, n := range c.Nodes {
		all = append(all, n.Address)
	}
	return all
}

// trialRun does what `rke up --init` does, and wants nothing changed but the administrator's certificate.
func (l *linter) trialRun(c *config.Cluster, s *state.State) {
	next, _, err := run.Init(run.Work{Config: c, Before: s, Kubeconfig: adminPath}, l.Source)
	if err != nil {
		l.find(StateFile, "%v", err)
		return
	}
	changed, err := state.Diff(s, next)
	if err != nil {
		l.find(StateFile, "%v", err)
		return
	}
	for _, path := range changed {
		own := strings.TrimPrefix(path, "desiredState.")
		if own == adminCertificate || own == adminConfig {
			continue
		}
		l.find(cmp.Or(fileOf(own), StateFile), "a first run would change %s", path)
	}
}

// fileOf is the file that is at fault when a run changes what is at a path, or "".
func fileOf(path string) string {
	if strings.HasPrefix(path, "rkeConfig") {
		return ConfigFile
	}
	return ""
}
