// Package run is one run of the engine: what it is asked to do, the hosts that it works on, the state that it makes, and the phases that
// it goes through. What phases do is in the packages beside it.
package run

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/dial"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/rke1/versions"
)

// Encrypting is the text that is being deployed to the API servers.
func (r *Run) Encrypting() string {
	if r.Encryption != nil {
		return *r.Encryption
	}
	return r.State.Desired.Encryption
}

const (
	// parallel is how many hosts are worked on at a time where nothing bounds it further.
	Parallel = 50
	// The tries of something that needs a while, 5 s apart: 18 of etcd, 24 of an API server, whose first start fills etcd, and
	// 10 of the others.
	EtcdTries, ApiTries, HealthTries = 18, 24, 10
)

// Options are what a run needs of its surroundings.
type Options struct {
	// Dial is the way to a host.
	Dial     func(config.Node) dial.Dialer
	Versions *versions.Data
	// Save keeps a state durably before the run goes on. It is called from one goroutine at a time.
	Save   func(context.Context, *state.State) error
	Report Report
	Logger *slog.Logger
	Now    func() time.Time
	// Source makes keys and certificates of the moment.
	Source func() pki.Source
	// Addons says from where addons_include may be read.
	Addons  addons.Sources
	Buckets Buckets
	// Pause is how long to wait between two tries; 0 means 5 s.
	Pause time.Duration
	// Planned is called in Up when it is known what should be on each host that answered, and before anything is changed
	// there. Its error ends the run. Nil is for who does not need to know.
	Planned func(context.Context, []Planned) error
	// Stop is asked at each safe point, and its error ends the run there; nil goes on to the end.
	Stop func() error
}

// Buckets says how buckets are reached, and where a snapshot is kept on its way: package inbucket's Options.
type Buckets struct {
	TempDir string
	Way     func(*http.Transport)
}

// Planned is what should be on a host.
type Planned struct {
	Node config.Node
	desired.Host
	// Certificates are the entries of the bundle that the host gets, as it gets them.
	Certificates pki.Bundle
}

// Report receives what a run does while it does it, from many goroutines.
type Report interface {
	// Phase begins a part of the run. Titles are short and begin with a capital letter.
	Phase(id, title string)
	// Line is one thing that was done or seen.
	Line(text string)
	// Warn is something that a person should know of, and what can be done about it; the run goes on.
	Warn(text string, steps ...advice.Step)
}

// Work is what a run is asked to do.
type Work struct {
	// Config is after defaults and validation.
	Config *config.Cluster
	// Before is the cluster's state, nil for a new cluster.
	Before *state.State
	// Kubeconfig is where the administrator's kubeconfig is kept, for the state alone.
	Kubeconfig string
	// DisablePortCheck leaves the ports unchecked.
	DisablePortCheck bool
	// IgnoreDockerVersion takes hosts with any version of Docker, as ignore_docker_version of the config does.
	IgnoreDockerVersion bool
	// RemoveSnapshots takes etcd's snapshots off hosts that leave, too.
	RemoveSnapshots bool
	// UpdateOnly changes workers alone.
	UpdateOnly bool
	// Certificates are the user's own, from pki.ReadDir; nil lets the engine issue them.
	Certificates pki.Bundle
}

// Cluster is what work is decided from.
func (w Work) Cluster() change.Cluster {
	return change.Cluster{Config: w.Config, Before: w.Before, Kubeconfig: w.Kubeconfig, Certificates: w.Certificates}
}

// Run is one run.
type Run struct {
	Options
	Work Work
	// Before is the state that the run began with; its parts are empty for a new cluster.
	Before state.State
	// State is what the run makes; it was saved, but for that of a preview and before a run's first phases.
	State *state.State
	saved bool
	Hosts map[string]*Host // by address; those that answered
	Down  map[string]error // why the others did not
	Plan  *desired.Plan
	// Registries are the private ones with their logins, those of ECR too, which no state has.
	Registries []config.PrivateRegistry
	API        *kube.API
	// Certificates are deployed in place of the desired ones: those of one step of a rotation.
	Certificates pki.Bundle
	// Encryption is deployed in place of the desired one: that of one step to another key.
	Encryption *string
	// RestartsOnly leaves containers as they are, but for starting them again.
	RestartsOnly bool
	// Stale says that etcd may have Secrets written with another key than the one that writes now.
	Stale bool

	// Mu guards what several hosts write at the same time, Failures among it.
	Mu       sync.Mutex
	Failures []error
}

// New prepares a run without doing anything yet.
func New(o Options, w Work) *Run {
	o.Pause = cmp.Or(o.Pause, 5*time.Second)
	r := &Run{Options: o, Work: w, Hosts: map[string]*Host{}, Down: map[string]error{}}
	if w.Before != nil {
		r.Before = *w.Before
	}
	return r
}

// Phase is a part of a run. What it needs and makes is on the Run.
type Phase struct {
	// ID and Title are as Report gets them.
	ID, Title string
	// ShouldRun says whether there is anything to do in this run; nil is always.
	ShouldRun func(*Run) bool
	// Run does it.
	Run func(context.Context, *Run) error
	// Preview adds what Run would do, and does nothing; nil where that is nothing that people ask for.
	Preview func(context.Context, *Run, *Changes) error
}

// Perform goes through phases. Between two of them a run may be stopped. The error is that of the phase that has failed, or of a run that was
// stopped.
func (r *Run) Perform(ctx context.Context, phases []Phase) error {
	for _, p := range phases {
		if err := r.SafePoint(); err != nil {
			return err
		}
		r.Report.Phase(p.ID, p.Title)
		if p.ShouldRun != nil && !p.ShouldRun(r) {
			continue
		}
		if err := p.Run(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// ErrStopped is what Options.Stop returns when a person has asked for the end of the run.
var ErrStopped = errors.New("the run was stopped; the next one goes on from here")

// SafePoint is where a run may be stopped: its error ends it.
func (r *Run) SafePoint() error {
	if r.Stop == nil {
		return nil
	}
	return r.Stop()
}

// Line reports something in the form that users of rke know: [part] text.
func (r *Run) Line(part, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if part != "" {
		text = "[" + part + "] " + text
	}
	r.Report.Line(text)
}

// Fresh says that nothing of the cluster was deployed yet.
func (r *Run) Fresh() bool { return r.Before.Current.Config == nil }

// Deployed are the nodes that the cluster had when the run began.
func (r *Run) Deployed() []config.Node {
	if r.Fresh() {
		return nil
	}
	return r.Before.Current.Config.Nodes
}

// Find is the node with an address.
func Find(nodes []config.Node, address string) (config.Node, bool) {
	i := slices.IndexFunc(nodes, func(n config.Node) bool { return n.Address == address })
	if i < 0 {
		return config.Node{}, false
	}
	return nodes[i], true
}

// With are the hosts that answered and have a role, in the order of the config.
func (r *Run) With(role string) []*Host {
	var hosts []*Host
	for _, n := range r.Work.Config.Nodes {
		if h := r.Hosts[n.Address]; h != nil && (role == "" || n.Has(role)) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// NodesWith are the nodes of the config with a role, whether their hosts answered or not.
func (r *Run) NodesWith(role string) []config.Node {
	return slices.DeleteFunc(slices.Clone(r.Work.Config.Nodes), func(n config.Node) bool { return !n.Has(role) })
}

// Each does something on hosts, at most so many at a time, and waits for all. What fails on
// one host does not stop the others.
func Each(ctx context.Context, hosts []*Host, limit int, do func(context.Context, *Host) error) error {
	return onhost.Each(ctx, hosts, limit, do)
}

// Wait waits between two tries. The error is the context's cause.
func (r *Run) Wait(ctx context.Context) error {
	select {
	case <-time.After(r.Pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Bundle are the certificates that are being deployed.
func (r *Run) Bundle() pki.Bundle {
	if r.Certificates != nil {
		return r.Certificates
	}
	return r.State.Desired.Certificates
}

// Trust verifies a server's certificate by the cluster's CA and shows the certificate of an entry. The error says which entry of the bundle cannot be
// read.
func (r *Run) Trust(entry, server string) (*tls.Config, error) {
	ca, own := r.Bundle()[pki.CA], r.Bundle()[entry]
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ca.CertificatePEM)) {
		return nil, fmt.Errorf("certificates: %s is not a certificate", pki.CA)
	}
	pair, err := tls.X509KeyPair([]byte(own.CertificatePEM), []byte(own.KeyPEM))
	if err != nil {
		return nil, fmt.Errorf("certificates: %s: %w", entry, err)
	}
	return &tls.Config{RootCAs: roots, ServerName: server, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// NodeName is the name of a host's node in Kubernetes.
func NodeName(n config.Node) string {
	if n.HostnameOverride != "" {
		return strings.ToLower(n.HostnameOverride)
	}
	return strings.ToLower(n.Address)
}

// Internal is where the other hosts reach a host.
func Internal(n config.Node) string {
	if n.InternalAddress != "" {
		return n.InternalAddress
	}
	return n.Address
}

// EtcdDir is etcd's data on a host, below its prefix.
const EtcdDir = "/var/lib/etcd"

// Shell is a script on a host, in the helper image.
func (r *Run) Shell(name string, h *Host, binds []string, script string, args ...string) onhost.Once {
	image := r.Work.Config.SystemImages.Alpine
	return onhost.Once{Process: nodeconfig.Process{
		Name: name, Image: image, ImageRegistryAuthConfig: r.Plan.Login(image), NetworkMode: "none", Binds: binds,
		Command: append([]string{"sh", "-c", script}, args...),
	}}
}

// KubernetesDir is the directory of everything that the engine writes on a host, below its prefix.
const KubernetesDir = "/etc/kubernetes"

// IncompleteError is that a run came to its end, but not for every host.
type IncompleteError struct {
	// Skipped are hosts that could not be reached, with the reasons.
	Skipped map[string]error
	// Failed is what went wrong on hosts that could.
	Failed []error
}

func (e *IncompleteError) Error() string {
	var parts []string
	if len(e.Skipped) > 0 {
		parts = append(parts, "Provisioning incomplete, host(s) ["+strings.Join(SortedKeys(e.Skipped), ",")+"] skipped because they could not be contacted")
	}
	for _, err := range e.Failed {
		parts = append(parts, err.Error())
	}
	return strings.Join(parts, "; ")
}

// SaveState keeps a state and remembers it. The error is that of Save; the run goes on from the state of before then.
func (r *Run) SaveState(ctx context.Context, s *state.State) error {
	if err := r.Save(ctx, s); err != nil {
		return fmt.Errorf("keep the cluster's state: %w", err)
	}
	r.State, r.saved = s, true
	return nil
}

// LastSaved is the state that was saved last, that of before when none was.
func (r *Run) LastSaved() *state.State {
	if r.saved {
		return r.State
	}
	return r.Work.Before
}

// Fail records what went wrong on one host while the run goes on with the others.
func (r *Run) Fail(err error) {
	if err == nil {
		return
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Failures = append(r.Failures, err)
	r.Warn(err)
}

// Warn reports an error that does not end the run.
func (r *Run) Warn(err error) { r.Report.Warn(err.Error(), advice.Of(err)...) }

// IsIncomplete says that a run came to its end with hosts left to do.
func IsIncomplete(err error) bool {
	var incomplete *IncompleteError
	return errors.As(err, &incomplete)
}

// Step names a part of a run, as Report.Phase does.
type Step struct{ ID, Title string }

// Steps are phases as Report names them.
func Steps(phases []Phase) []Step {
	all := make([]Step, len(phases))
	for i, p := range phases {
		all[i] = Step{ID: p.ID, Title: p.Title}
	}
	return all
}

// On is what is done on each host of the run, for Each.
func (r *Run) On(do func(context.Context, *Run, *Host) error) func(context.Context, *Host) error {
	return func(ctx context.Context, h *Host) error { return do(ctx, r, h) }
}
