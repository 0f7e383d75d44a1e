// Package export makes of a cluster's state the files with which the rke command line takes the
// cluster over, and holds them to what that needs: a first run that changes nothing but the
// administrator's certificate. Nothing here reaches a host, so that it works when none answers.
//
// Wire source: the contract of the engine, section 8, and the files of the RKE CLI's line 1.6.
package export

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/installers/kubeconfig"
	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/rke1/versions"
)

// The files of an export. The rke command line finds the state by the name of the config, so that
// none of them may be renamed alone.
const (
	ConfigFile     = "cluster.yml"
	StateFile      = "cluster.rkestate"
	KubeconfigFile = "kube_config_cluster.yml"
	SumsFile       = "SHA256SUMS"
	ReadmeFile     = "README"
)

// adminPath is where the command line puts the administrator's kubeconfig when it is started beside the
// files; the state has it.
const adminPath = "./" + KubeconfigFile

// File is one file of an export, by its name without a directory. All of them are secret.
type File struct {
	Name    string
	Content []byte
}

// Options are what an export needs beside the state.
type Options struct {
	// Versions are the version data; they fill what the config leaves open and name the rke to use.
	Versions *versions.Data
	// Source issues the certificate of the linter's trial run, which is thrown away.
	Source pki.Source
	// SSH is how the hosts are reached; what it leaves empty stays as it is in the state.
	SSH SSH
	// OverTunnel says that the state's own SSH fields were never used: what SSH leaves empty becomes Placeholder.
	OverTunnel bool
	// Unfinished exports a cluster whose last run was interrupted, as it is: the first run of the
	// command line finishes it. Without it that is an *UnfinishedError.
	Unfinished bool
	// Faulty makes an export with Findings in it, where Make would refuse: for those who have nothing better.
	Faulty bool
}

// Export is what Make made.
type Export struct {
	Files []File
	// Findings are those of the linter, only where Options.Faulty takes them.
	Findings []Finding
	// Notes are sentences for the person who exports: what was completed, what has to be filled in,
	// what expires soon.
	Notes []string
}

// UnfinishedError is that what should be and what was deployed differ.
type UnfinishedError struct {
	// Differences are paths below desiredState, as rkeConfig.kubernetesVersion.
	Differences []string
}

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("the last run on the cluster was interrupted, or its config has changed since: what should be and what was deployed differ in %s; "+
		"finish it with `drover rke up`, or export it as it is with --unfinished", list(e.Differences))
}

// LintError is that an export would not do what it is for. Nothing of it is to be given away.
type LintError struct{ Findings []Finding }

func (e *LintError) Error() string {
	lines := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		lines[i] = f.String()
	}
	return "the rke command line could not take the cluster over with these files:\n" + strings.Join(lines, "\n")
}

// Make makes the files of a cluster that was deployed. The state stays as it is. The error is an
// *UnfinishedError or a *LintError where there is something to decide or to mend.
func Make(s *state.State, o Options, now time.Time) (*Export, error) {
	if s == nil || s.Current.Config == nil {
		return nil, errors.New("nothing of the cluster was deployed yet, so that there is nothing to export")
	}
	if err := s.Check(state.Against{}); err != nil {
		return nil, fmt.Errorf("the state cannot be exported: %w", err)
	}
	e := &Export{}
	next := &state.State{Desired: o.part(s.Desired), Current: o.part(s.Current)}
	e.completeWorkers(next)
	differences, err := Differences(next, o.known())
	if err != nil {
		return nil, err
	}
	switch {
	case len(differences) == 0:
		next = next.Deployed()
	case !o.Unfinished:
		return nil, &UnfinishedError{Differences: differences}
	default:
		e.note("a run was interrupted; the first `rke up` finishes it. What should be and what was deployed differ in %s", list(differences))
	}
	if err := e.write(next, o, differences); err != nil {
		return nil, err
	}
	if e.Findings = Lint(e.Files, o); len(e.Findings) > 0 && !o.Faulty {
		return nil, &LintError{Findings: e.Findings}
	}
	return e, e.notes(next, o.Versions, now)
}

func (e *Export) note(format string, args ...any) {
	e.Notes = append(e.Notes, fmt.Sprintf(format, args...))
}

// part is one of a state's two as the command line would have written it.
func (o Options) part(p state.Part) state.Part {
	c := config.WithDefaults(p.Config.WithoutChecksums(), o.known())
	c.Restore, c.RotateCertificates, c.RotateEncryptionKey = config.Restore{}, nil, false
	for i := range c.Nodes {
		c.Nodes[i].NodeName = ""
	}
	if e := c.Services.KubeAPI.SecretsEncryptionConfig; e != nil && e.CustomConfig != nil {
		e.CustomConfig.TypeMeta = config.TypeMeta{} // the command line writes both, and those that are given as well
		if state.NamedTwice(p.Encryption) {
			e.CustomConfig.TypeMeta = config.TypeMeta{Kind: "EncryptionConfiguration", APIVersion: "apiserver.config.k8s.io/v1"}
		}
	}
	if a := c.Services.KubeAPI.AuditLog; a != nil && !a.Enabled {
		a.Configuration = nil // the command line would give the API server its flags, without the file
	}
	o.SSH.put(&c, o.OverTunnel)
	c = config.WithDefaults(c, o.known()) // what the bastion leaves open
	b := maps.Clone(p.Certificates)
	admin := b[pki.Admin]
	admin.ConfigPath = adminPath
	for _, n := range c.Nodes {
		if n.Has(config.RoleControlPlane) {
			admin.Config = pki.AdminKubeconfig(b, c.ClusterName, n.Address)
			break
		}
	}
	b[pki.Admin] = admin
	return state.Part{Config: &c, Certificates: b, Encryption: p.Encryption}
}

func (o Options) known() config.Versions {
	return config.Versions{Default: o.Versions.Default(), Images: o.Versions.Images}
}

// completeWorkers enters hosts that are workers alone into what was deployed. Some engines leave them
// out there, and the command line would take them for new.
func (e *Export) completeWorkers(s *state.State) {
	deployed := s.Current.Config
	has := func(nodes []config.Node, address string) bool {
		return slices.ContainsFunc(nodes, func(n config.Node) bool { return n.Address == address })
	}
	var missing []string
	var nodes []config.Node
	for _, n := range s.Desired.Config.Nodes {
		switch i := slices.IndexFunc(deployed.Nodes, func(d config.Node) bool { return d.Address == n.Address }); {
		case i >= 0:
			nodes = append(nodes, deployed.Nodes[i])
		case workerOnly(n):
			nodes = append(nodes, n)
			missing = append(missing, n.Address)
		}
	}
	if len(missing) == 0 {
		return
	}
	for _, n := range deployed.Nodes {
		if !has(s.Desired.Config.Nodes, n.Address) {
			nodes = append(nodes, n)
		}
	}
	deployed.Nodes = nodes
	e.note("the state did not say that these workers were deployed, and now does: %s. If one of them never was, take it out of %s before the first run and add it afterwards",
		strings.Join(missing, ", "), ConfigFile)
}

func workerOnly(n config.Node) bool {
	return !n.Has(config.RoleEtcd) && !n.Has(config.RoleControlPlane)
}

// Differences are the paths by which what a cluster should be differs from what was deployed; none after
// a run that came to its end. The administrator's certificate, which every run makes anew, does not count, nor what the rke CLI
// leaves in one of the two alone. Its error is that of a state that cannot be encoded.
func Differences(s *state.State, known config.Versions) ([]string, error) {
	all, err := state.Diff(&state.State{Desired: asked(s.Desired, known)}, &state.State{Desired: asked(s.Current, known)})
	if err != nil {
		return nil, err
	}
	var own []string
	for _, path := range all {
		path = strings.TrimPrefix(path, "desiredState.")
		if path != adminCertificate && path != adminConfig {
			own = append(own, path)
		}
	}
	return own, nil
}

// asked is a part of a state with what its config asks of the hosts, after defaults. A run of the rke CLI adds checksums to the
// config, fills how nodes are drained in currentState alone, keeps its flag --ignore-docker-version and the rotations that it has
// finished, and writes the default registry alone for an image that a version does not have. Of a rotation that was interrupted
// certificates or keys differ.
func asked(p state.Part, known config.Versions) state.Part {
	if p.Config == nil {
		return p
	}
	c := config.WithDefaults(p.Config.WithoutChecksums(), known)
	c.IgnoreDockerVersion, c.RotateCertificates, c.RotateEncryptionKey = nil, nil, false
	if e := c.Services.KubeAPI.SecretsEncryptionConfig; e != nil && e.CustomConfig != nil {
		e.CustomConfig.TypeMeta = config.TypeMeta{}
	}
	images := reflect.ValueOf(&c.SystemImages).Elem()
	for _, r := range c.PrivateRegistries {
		for _, field := range images.Fields() {
			if r.IsDefault && r.URL != "" && strings.TrimSuffix(field.String(), "/") == r.URL {
				field.SetString("")
			}
		}
	}
	p.Config = &c
	return p
}

// What every run of the command line changes in a bundle.
const (
	adminCertificate = "certificatesBundle." + pki.Admin + ".certificatePEM"
	adminConfig      = "certificatesBundle." + pki.Admin + ".config"
)

// write makes the files of a state that is ready.
func (e *Export) write(s *state.State, o Options, differences []string) error {
	cluster, err := config.Write(*s.Desired.Config)
	if err != nil {
		return err
	}
	text, err := state.Encode(s)
	if err != nil {
		return err
	}
	// The names in a state are the text of a kubeconfig, which people are to use.
	admin := []byte(s.Desired.Certificates[pki.Admin].Config)
	if _, err := kubeconfig.Read(admin); err != nil {
		return fmt.Errorf("make %s of the state: %w", KubeconfigFile, err)
	}
	e.Files = []File{
		{ConfigFile, cluster},
		{StateFile, text},
		{KubeconfigFile, admin},
		{ReadmeFile, []byte(readme(s, o.Versions, differences))},
	}
	e.Files = append(e.Files, File{SumsFile, sums(e.Files)})
	return nil
}

// sums are lines as sha256sum writes them and reads them with --check.
func sums(files []File) []byte {
	var text strings.Builder
	for _, f := range files {
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(f.Content), f.Name)
	}
	return []byte(text.String())
}

// notes are those that follow from the finished state.
func (e *Export) notes(s *state.State, v *versions.Data, now time.Time) error {
	if own := addons.OwnTexts(s.Desired.Config, v); len(own) > 0 {
		e.note("the first `rke up` replaces the pods of the add-ons %s on all nodes; point 8 of %s says how to have it otherwise", list(own), ReadmeFile)
	}
	if fields := placeholders(s.Desired.Config); len(fields) > 0 {
		e.note("fill in what is %s in %s: %s. A placeholder makes the command line stop before it connects anywhere", Placeholder, ConfigFile, list(fields))
	}
	for _, include := range s.Desired.Config.AddonsInclude {
		if !strings.Contains(include, "://") {
			e.note("addons_include of %s names %s, which is not part of the export: copy it too", ConfigFile, include)
		}
	}
	ending, err := pki.Warnings(s.Desired.Certificates, now)
	if err != nil {
		return err
	}
	for _, w := range ending {
		e.note("%s", w.Warning(now))
	}
	return nil
}

// list is texts for a sentence, the first ten.
func list(all []string) string {
	if len(all) > 10 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:10], ", "), len(all)-10)
	}
	return strings.Join(all, ", ")
}
