// Gathering what is known, and handing the changed document on; of RKE1 clusters the version is in the config of the engine.

package upgrades

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/versions"
	rke1versions "github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Upgrader takes clusters to other versions.
type Upgrader struct {
	State    *state.State
	Clusters *clusters.Applier
	// Versions is the current version data, and RKE1Versions those of RKE1 clusters; nil has none.
	Versions     func() *versions.Data
	RKE1Versions *rke1versions.Data
	// API is what the server sees of a cluster's own API, and Client the way to it; the error says why there is none. Both
	// are nil where no cluster can be asked.
	API    func(records.ClusterKey) observed.API
	Client func(records.ClusterKey) (kubernetes.Interface, error)
	// Restorable says whether a snapshot can be restored today.
	Restorable func(records.Snapshot) (ok bool, why string)
	Now        func() time.Time
}

// Request is what is asked for.
type Request struct {
	// To is the version.
	To string
	// Accept are codes of findings that do not keep the upgrade from beginning; see Acceptable.
	Accept []string
	// How is how the change is taken in.
	How clusters.Request
}

// Answer is what was found, and what became of it.
type Answer struct {
	From, To string
	Findings []Finding
	// Result is of the changed document; nil when the upgrade is refused.
	Result *clusters.Result
}

// Shown is the answer as clients see it.
func (a Answer) Shown() apitypes.Upgrade {
	u := apitypes.Upgrade{Type: "upgrade", From: a.From, To: a.To, Findings: append([]Finding{}, a.Findings...)}
	if a.Result != nil {
		u.Result = &a.Result.ApplyResult
	}
	return u
}

// RefusedError is that an upgrade cannot begin; nothing was changed.
type RefusedError struct {
	Cluster  string
	Findings []Finding
}

// Error has all that keeps the upgrade from beginning.
func (e *RefusedError) Error() string {
	var all []string
	for _, f := range e.Findings {
		if f.Level == Refused {
			all = append(all, f.Text)
		}
	}
	return fmt.Sprintf("cluster %s is not upgraded: %s", e.Cluster, strings.Join(all, "; "))
}

// InvalidError is that something cannot be asked for.
type InvalidError struct{ Field, Reason string }

func (e *InvalidError) Error() string { return e.Reason }

// Upgrade looks at everything, and changes the version of the cluster unless something is in the way or it is a dry run. It
// returns *RefusedError with the findings, *store.NotFoundError without such a cluster, *InvalidError, and what
// clusters.Applier.Apply returns.
func (u *Upgrader) Upgrade(ctx context.Context, key records.ClusterKey, r Request) (Answer, error) {
	d, ok := u.State.Clusters.Get(string(key))
	if !ok {
		return Answer{}, fmt.Errorf("upgrade: %w", &store.NotFoundError{Collection: "clusters", Key: string(key)})
	}
	for _, code := range r.Accept {
		if !slices.Contains(Acceptable(), code) {
			return Answer{}, &InvalidError{Field: "accept", Reason: fmt.Sprintf("%.40q is not a finding that can be accepted; those are %s", code, strings.Join(Acceptable(), ", "))}
		}
	}
	c := d.Value
	if c.Spec.Docker() && !c.Spec.RKE1() {
		return Answer{}, &InvalidError{Field: "version", Reason: fmt.Sprintf("cluster %s has no Kubernetes: nothing is provisioned on its hosts", c.Name)}
	}
	if c.Spec.Imported() {
		return Answer{}, &InvalidError{Field: "version", Reason: fmt.Sprintf("cluster %s is imported: it is upgraded with the tools that made it", c.Name)}
	}
	if c.Spec.RKE1() && r.How.NoSnapshot {
		return Answer{}, &InvalidError{Field: "noSnapshot", Reason: fmt.Sprintf("the upgrade of an RKE1 cluster is a change of its document: annotate %s with %s: \"true\" to have it begin without a snapshot", c.Name, clusterspec.NoSnapshot)}
	}
	if c.Spec.RKE1() && r.How.Hurry {
		return Answer{}, &InvalidError{Field: "now", Reason: fmt.Sprintf("the upgrade of an RKE1 cluster is a change of its document, which begins an operation a moment later: drover operations ls --cluster %s has it, and drover operations hurry ID has it not wait", c.Name)}
	}
	answer := Answer{To: r.To}
	known := u.facts(ctx, c, r)
	if answer.From = c.Spec.KubernetesVersion; c.Spec.RKE1() && len(known.running) > 0 {
		answer.From = known.running[0]
	}
	answer.Findings = find(known)
	if slices.ContainsFunc(answer.Findings, func(f Finding) bool { return f.Level == Refused }) {
		return answer, &RefusedError{Cluster: c.Name, Findings: answer.Findings}
	}
	spec, err := withVersion(c.Spec, r.To)
	if err != nil {
		return answer, err
	}
	doc := clusterspec.Document{
		APIVersion: clusterspec.APIVersion, Kind: clusterspec.Kind, Spec: spec,
		Metadata: clusterspec.Metadata{Name: c.Name, Namespace: c.Namespace, Labels: c.Labels, Annotations: c.Annotations},
	}
	if c.Spec.Docker() {
		doc.APIVersion = clusterspec.DockerAPIVersion
	}
	results, err := u.Clusters.Apply(ctx, []clusterspec.Document{doc}, r.How)
	if err != nil {
		return answer, err
	}
	answer.Result = &results[0]
	return answer, nil
}

// facts gathers what the findings are made of.
func (u *Upgrader) facts(ctx context.Context, c records.Cluster, r Request) facts {
	key := records.NewClusterKey(c.Namespace, c.Name)
	f := facts{now: u.Now(), cluster: c, to: r.To, accepted: r.Accept}
	if c.Spec.RKE1() {
		u.ofRKE1(key, &f)
		f.snapshot = c.Annotations[clusterspec.NoSnapshot] != "true"
	} else {
		data := u.Versions()
		release, _ := data.Permissive(r.To)
		f.known, f.neighbour = release.Known, release.Neighbour
		if !f.known && c.Spec.RKEConfig != nil && c.Spec.RKEConfig.MachineGlobalConfig[clusterspec.AllowUnknownArgs] == true {
			_, f.known = data.Permissive(r.To)
		}
		f.nearest, f.running = data.Nearest(r.To), clusters.Running(u.State, c)
		f.snapshot = !r.How.NoSnapshot && c.Annotations[clusterspec.NoSnapshot] != "true"
		for _, s := range etcdops.Known(u.State, c, false) {
			if ok, _ := u.Restorable(s.Value); ok && s.Value.Created.After(f.newest) {
				f.newest = s.Value.Created
			}
		}
	}
	if text, s, err := pass.Window(c, f.now); err == nil && !r.How.Hurry {
		f.window, f.windowed = text, s
	}
	for _, m := range u.State.MachinesByCluster.Find(key) {
		f.machines = append(f.machines, m.Value)
	}
	slices.SortFunc(f.machines, func(a, b records.Machine) int { return strings.Compare(a.Name, b.Name) })
	if u.API == nil || u.Client == nil {
		f.unasked = "this server asks no cluster"
		return f
	}
	f.details = u.API(key).Details
	client, err := u.Client(key)
	if err == nil {
		f.nodes, f.apis, err = ask(ctx, client)
	}
	if err != nil {
		f.unasked = err.Error()
	}
	return f
}

// ofRKE1 has the facts of a cluster that the engine makes.
func (u *Upgrader) ofRKE1(key records.ClusterKey, f *facts) {
	if u.RKE1Versions != nil {
		f.known = u.RKE1Versions.Known(f.to)
		all := u.RKE1Versions.List()
		f.nearest = all[max(0, len(all)-5):]
	}
	if config, err := f.cluster.Spec.RKE1Config(); err == nil && config.KubernetesVersion != "" {
		f.running = []string{config.KubernetesVersion}
	}
	if d, ok := u.State.RKEStates.Get(string(key)); ok {
		for _, s := range d.Value.Snapshots {
			if s.Failure == "" && s.At.After(f.newest) {
				f.newest = s.At
			}
		}
	}
}

// rke1 is whether an RKE1 cluster may have the version.
func (f *finder) rke1() {
	to, ok := rke1versions.Parse(f.to)
	switch {
	case !ok:
		f.refuse("version-form", "", "%.60q is not a version of RKE1, such as v1.32.5-rancher1-1", f.to)
		return
	case !f.known:
		f.refuse("version-unknown", "", "there are no data of version %s; known are %s", f.to, strings.Join(f.nearest, ", "))
	}
	if len(f.running) == 0 {
		return
	}
	from, ok := rke1versions.Parse(f.running[0])
	switch {
	case !ok:
	case to.Compare(from) < 0:
		f.refuse("downgrade", "drover snapshots restore "+f.cluster.Name+" SNAPSHOT goes back with a snapshot of then", "a cluster cannot go back from %s to %s", f.running[0], f.to)
	case to.Major == from.Major && to.Minor > from.Minor+1:
		f.refuse("skipped-minor", "go through each minor line", "the way from %s to %s leaves out a minor line, which Kubernetes does not support", f.running[0], f.to)
	}
}

// withVersion is the spec of a cluster with another Kubernetes version.
func withVersion(spec clusterspec.Spec, to string) (clusterspec.Spec, error) {
	if !spec.RKE1() {
		spec.KubernetesVersion = to
		return spec, nil
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(spec.RKE1Text(), &fields); err != nil {
		return spec, fmt.Errorf("read the config of the cluster as it is stored: %w", err)
	}
	version, err := json.Marshal(to)
	if err != nil {
		return spec, fmt.Errorf("write the version: %w", err)
	}
	fields["kubernetesVersion"] = version
	text, err := json.Marshal(fields)
	if err != nil {
		return spec, fmt.Errorf("write the config of the cluster: %w", err)
	}
	config := clusterspec.RancherKubernetesEngineConfig(text)
	spec.RancherKubernetesEngineConfig = &config
	return spec, nil
}
