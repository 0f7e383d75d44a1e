// Package engine brings the hosts of an RKE1 cluster to what its cluster.yml says, and keeps
// the cluster's state. A run goes through phases, a file each. Each looks at what is there and
// does what differs, so that a run that was interrupted anywhere is continued by the next one.
//
// What should run where is decided in rke1/desired, which certificates there are in rke1/pki;
// hosts are reached through rke1/onhost. The engine runs in the server, through tunnels, and in
// the command line, through SSH. Log lines are those that users of the rke command line know.
package engine

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
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
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/snapshots/inbucket"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/rke1/versions"
)

const (
	// parallel is how many hosts are worked on at a time where nothing bounds it further.
	parallel = 50
	// The tries of something that needs a while, 5 s apart: 18 of etcd, 24 of an API server, whose first start fills etcd, and
	// 10 of the others.
	etcdTries, apiTries, healthTries = 18, 24, 10
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
	Addons addons.Sources
	// Buckets says how buckets are reached, and where a snapshot is kept on its way.
	Buckets inbucket.Options
	// Pause is how long to wait between two tries; 0 means 5 s.
	Pause time.Duration
	// Planned is called in Up when it is known what should be on each host that answered, and before anything is changed
	// there. Its error ends the run. Nil is for who does not need to know.
	Planned func(context.Context, []Planned) error
	// Stop is asked at each safe point, and its error ends the run there; nil goes on to the end.
	Stop func() error
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

// cluster is what work is decided from.
func (w Work) cluster() change.Cluster {
	return change.Cluster{Config: w.Config, Before: w.Before, Kubeconfig: w.Kubeconfig, Certificates: w.Certificates}
}

// run is one run.
type run struct {
	Options
	work Work
	// before is the state that the run began with; its parts are empty for a new cluster.
	before state.State
	// state is what the run makes; it was saved, but for that of a preview and before a run's first phases.
	state *state.State
	saved bool
	hosts map[string]*host // by address; those that answered
	down  map[string]error // why the others did not
	plan  *desired.Plan
	// registries are the private ones with their logins, those of ECR too, which no state has.
	registries []config.PrivateRegistry
	api        *kube.API
	// certificates are deployed in place of the desired ones: those of one step of a rotation.
	certificates pki.Bundle
	// encryption is deployed in place of the desired one: that of one step to another key.
	encryption *string
	// restartsOnly leaves containers as they are, but for starting them again.
	restartsOnly bool
	// stale says that etcd may have Secrets written with another key than the one that writes now.
	stale bool

	mu       sync.Mutex
	failures []error
}

// newRun prepares a run without doing anything yet.
func newRun(o Options, w Work) *run {
	if o.Pause == 0 {
		o.Pause = 5 * time.Second
	}
	r := &run{Options: o, work: w, hosts: map[string]*host{}, down: map[string]error{}}
	if w.Before != nil {
		r.before = *w.Before
	}
	return r
}

// phase is a part of a run.
type phase struct {
	id, title string
	do        func(*run, context.Context) error
}

// perform goes through phases. Between two of them a run may be stopped.
func (r *run) perform(ctx context.Context, phases []phase) error {
	for _, p := range phases {
		if err := r.safePoint(); err != nil {
			return err
		}
		r.Report.Phase(p.id, p.title)
		if err := p.do(r, ctx); err != nil {
			return err
		}
	}
	return nil
}

// ErrStopped is what Stop returns when somebody asked for the end of a run.
var ErrStopped = errors.New("the run was stopped; the next one goes on from here")

func (r *run) safePoint() error {
	if r.Stop == nil {
		return nil
	}
	return r.Stop()
}

// line reports something in the form that users of rke know: [part] text.
func (r *run) line(part, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if part != "" {
		text = "[" + part + "] " + text
	}
	r.Report.Line(text)
}

// fresh says that nothing of the cluster was deployed yet.
func (r *run) fresh() bool { return r.before.Current.Config == nil }

// deployed are the nodes that the cluster had when the run began.
func (r *run) deployed() []config.Node {
	if r.fresh() {
		return nil
	}
	return r.before.Current.Config.Nodes
}

// find is the node with an address.
func find(nodes []config.Node, address string) (config.Node, bool) {
	i := slices.IndexFunc(nodes, func(n config.Node) bool { return n.Address == address })
	if i < 0 {
		return config.Node{}, false
	}
	return nodes[i], true
}

// with are the hosts that answered and have a role, in the order of the config.
func (r *run) with(role string) []*host {
	var hosts []*host
	for _, n := range r.work.Config.Nodes {
		if h := r.hosts[n.Address]; h != nil && (role == "" || n.Has(role)) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// nodesWith are the nodes of the config with a role, whether their hosts answered or not.
func (r *run) nodesWith(role string) []config.Node {
	return slices.DeleteFunc(slices.Clone(r.work.Config.Nodes), func(n config.Node) bool { return !n.Has(role) })
}

// each does something on hosts, at most so many at a time, and waits for all. What fails on
// one host does not stop the others.
func each(ctx context.Context, hosts []*host, limit int, do func(context.Context, *host) error) error {
	return onhost.Each(ctx, hosts, limit, do)
}

// pause waits between two tries.
func (r *run) pause(ctx context.Context) error {
	select {
	case <-time.After(r.Pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// bundle are the certificates that are being deployed.
func (r *run) bundle() pki.Bundle {
	if r.certificates != nil {
		return r.certificates
	}
	return r.state.Desired.Certificates
}

// trust verifies a server's certificate by the cluster's CA and shows the certificate of an entry.
func (r *run) trust(entry, server string) (*tls.Config, error) {
	ca, own := r.bundle()[pki.CA], r.bundle()[entry]
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

// nodeName is the name of a host's node in Kubernetes.
func nodeName(n config.Node) string {
	if n.HostnameOverride != "" {
		return strings.ToLower(n.HostnameOverride)
	}
	return strings.ToLower(n.Address)
}

// internal is where the other hosts reach a host.
func internal(n config.Node) string {
	if n.InternalAddress != "" {
		return n.InternalAddress
	}
	return n.Address
}
