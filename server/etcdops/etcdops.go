// Package etcdops takes in what people ask for on clusters that run: snapshots of their etcd, restores, and rotations of
// certificates, CAs, keys and the server token. What is asked for becomes an operation, which the planner carries out; what is known of snapshots
// is kept beside the cluster, so that it outlives it.
package etcdops

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/references"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Service begins operations on clusters that run.
type Service struct {
	State *state.State
	// Fault is why the bucket of a cluster did not answer last; nil is that all do.
	Fault func(records.ClusterKey) string
	// Agents are what agents are updated to; nil updates none.
	Agents *Agents
	Now    func() time.Time
}

// Request is a request of a user.
type Request struct {
	Kind    operations.Kind
	Request steps.Request
	// Mode says what of the cluster becomes as it was with a restored snapshot, one of Modes; empty is the first.
	Mode string
	By   string
	Turn admission.Turn
	// Foreign says that the caller may have Foreign snapshots, too.
	Foreign bool
	// Requested is what the cluster's document asks by, which is noted with the operation; empty when people ask themselves.
	Requested string
}

// The modes of a restore, in Rancher's words: the data alone, with the Kubernetes version, and with the settings too.
const (
	ModeNone    = "none"
	ModeVersion = "kubernetesVersion"
	ModeAll     = "all"
)

// Modes are all of them.
func Modes() []string { return []string{ModeNone, ModeVersion, ModeAll} }

// Begin begins an operation on a cluster, or queues it. What does not fit is an *admission.InvalidError; *operations.BusyError says
// that another operation is under way, and *store.NotFoundError that there is no such cluster.
func (a *Service) Begin(ctx context.Context, key records.ClusterKey, ask Request) (operations.Operation, error) {
	// Of two requests in one moment one is checked again.
	return store.RetryFor(func() (operations.Operation, error) { return a.begin(ctx, key, ask) })
}

func (a *Service) begin(ctx context.Context, key records.ClusterKey, ask Request) (operations.Operation, error) {
	c, writing, err := a.subject(key)
	if err != nil {
		return operations.Operation{}, fmt.Errorf("begin %s: %w", ask.Kind, err)
	}
	if err := a.complete(c, &ask); err != nil {
		return operations.Operation{}, err
	}
	token, err := a.token(key, &ask)
	if err != nil {
		return operations.Operation{}, err
	}
	o, writes, _, err := admission.Begin(ctx, a.State, admission.Request{
		Subject: key, Kind: ask.Kind, Title: steps.Title(ask.Kind, key, ask.Request), By: ask.By, Generation: c.Generation, Turn: ask.Turn,
		Params: params{ask.Request},
	}, a.Now)
	if err != nil {
		return o, err
	}
	if ask.Requested != "" {
		if c.Requests[ask.Kind].Value == ask.Requested {
			return operations.Operation{}, admission.Invalid("cluster %s was asked for that before", c.Name) // by another server, a moment ago
		}
		noted := maps.Clone(c.Requests)
		if noted == nil {
			noted = map[operations.Kind]records.Requested{}
		}
		noted[ask.Kind] = records.Requested{Value: ask.Requested, Operation: o.ID, Phase: records.RequestStarted}
		c.Requests = noted
	}
	if _, err := a.State.Store.Commit(ctx, append(append(writes, token...), writing(c))...); err != nil {
		return o, fmt.Errorf("begin %s on %s: %w", ask.Kind, key.Home(), err)
	}
	return o, nil
}

// subject is the cluster or the fleet of a key, a fleet as records.Fleet.AsCluster, and what writes it: a fleet as it is, so that nothing begins
// on one that is being removed. The error is a *store.NotFoundError.
func (a *Service) subject(key records.ClusterKey) (c records.Cluster, writing func(records.Cluster) store.Op, err error) {
	if d, ok := a.State.Fleets.Get(string(key)); ok {
		return d.Value.AsCluster(), func(records.Cluster) store.Op { return a.State.Fleets.Updating(d) }, nil
	}
	d, ok := a.State.Clusters.Get(string(key))
	if !ok {
		return c, nil, &store.NotFoundError{Collection: "clusters", Key: string(key)}
	}
	return d.Value, func(c records.Cluster) store.Op {
		d.Value = c
		return a.State.Clusters.Updating(d)
	}, nil
}

// params are those of an operation.
type params struct {
	Ask steps.Request `json:"ask"`
}

// token is the write of the server token that a rotation brings, which is stored before a host is asked to take it.
func (a *Service) token(key records.ClusterKey, ask *Request) ([]store.Op, error) {
	if ask.Kind != operations.KindRotateToken {
		return nil, nil
	}
	secrets, _ := a.State.ClusterSecrets.Get(string(key))
	next, err := secrets.Value.Expecting(randomid.Secret(), a.Now().UTC())
	if err != nil {
		return nil, admission.Invalid("the server token of cluster %s cannot be rotated: %v", key.Name(), err)
	}
	secrets.Value, ask.Request.TokenHash = next, next.Next.Hash()
	return []store.Op{a.State.ClusterSecrets.Updating(secrets)}, nil
}

// Draft is the operation that a request would become, of which nothing is stored. The error is an *admission.InvalidError or a
// *store.NotFoundError, as in Begin.
func (a *Service) Draft(key records.ClusterKey, ask Request) (operations.Operation, error) {
	c, _, err := a.subject(key)
	if err != nil {
		return operations.Operation{}, fmt.Errorf("look at what %s would do: %w", ask.Kind, err)
	}
	if err := a.complete(c, &ask); err != nil {
		return operations.Operation{}, err
	}
	if _, err := a.token(key, &ask); err != nil {
		return operations.Operation{}, err
	}
	text, err := json.Marshal(params{ask.Request})
	if err != nil {
		return operations.Operation{}, fmt.Errorf("look at what %s would do on %s: %w", ask.Kind, key.Home(), err)
	}
	now := a.Now().UTC()
	return operations.Operation{
		ID: "op-draft", Kind: ask.Kind, Subject: string(key), Title: steps.Title(ask.Kind, key, ask.Request), Generation: c.Generation, Params: text,
		State: operations.Running, Created: now, Started: now,
	}, nil
}

// complete fills in what a request leaves out, and says what is wrong with it.
func (a *Service) complete(c records.Cluster, ask *Request) error {
	home := records.ClusterKey(c.Key())
	switch {
	case home.Fleet() && ask.Kind != operations.KindUpdateAgents:
		return admission.Invalid("%s has no Kubernetes for %s; the agents of its machines can be updated", home.Home(), ask.Kind)
	case home.Fleet() && !c.Deleting.IsZero():
		return admission.Invalid("%s is being removed", home.Home())
	case home.Fleet():
		return a.agents(c, &ask.Request)
	case c.Spec.Docker():
		return admission.Invalid("cluster %s is one of RKE1, for which this is not supported here", c.Name)
	case c.Spec.Imported():
		return admission.Invalid("cluster %s is imported: its etcd and its certificates are not this server's to change", c.Name)
	case !c.Deleting.IsZero():
		return admission.Invalid("cluster %s is being removed", c.Name)
	case !c.Status.Initialized && ask.Kind == operations.KindRestore:
		return admission.Invalid("cluster %s has not been up yet: wait until its first machine is active, and restore then what it had on other hosts", c.Name)
	case !c.Status.Initialized:
		return admission.Invalid("cluster %s has not been up yet", c.Name)
	case c.Status.Restoring != "" && ask.Kind != operations.KindRestore:
		return admission.Invalid("the restore of cluster %s by operation %s has not come to its end; nothing else begins before one has", c.Name, c.Status.Restoring)
	}
	if _, _, err := PlaceOf(a.State, c); err != nil && ask.Kind == operations.KindSnapshot {
		return &admission.InvalidError{Reason: err.Error()}
	}
	if ask.Kind == operations.KindRestore || ask.Kind == operations.KindRotateCA {
		ask.Request.NoSnapshot = ask.Request.NoSnapshot || c.Annotations[clusterspec.NoSnapshot] == "true"
	}
	if ask.Kind == operations.KindUpdateAgents {
		return a.agents(c, &ask.Request)
	}
	if ask.Kind == operations.KindRestore {
		if err := a.locate(c, ask); err != nil {
			return err
		}
	}
	if err := ask.Request.Check(ask.Kind); err != nil {
		return &admission.InvalidError{Reason: err.Error()}
	}
	return nil
}

// locate finds the snapshot of a restore, the machine that has it, and what the cluster is to become with it.
func (a *Service) locate(c records.Cluster, ask *Request) error {
	r := &ask.Request
	ask.Mode = cmp.Or(ask.Mode, ModeNone)
	if !slices.Contains(Modes(), ask.Mode) {
		return admission.Invalid("%.40q is not a mode of restores; those are %s", ask.Mode, strings.Join(Modes(), ", "))
	}
	var known []records.Snapshot
	for _, d := range Known(a.State, c, ask.Foreign) {
		s := d.Value
		if s.Name() == r.Snapshot || s.File == r.Snapshot && (s.Machine == r.Target || r.Target == "" || s.Machine == records.SnapshotInS3) {
			known = append(known, s)
		}
	}
	switch {
	case len(known) == 0 && !strings.HasPrefix(r.Snapshot, "/"):
		return admission.Invalid("cluster %s has no snapshot %.80q; drover snapshots ls %s shows those that there are, and one that was copied to a host is restored by its path there", c.Name, r.Snapshot, c.Name)
	case len(known) == 0 && r.Target == "":
		return admission.Invalid("on which host is %.80q? Name its machine with --machine", r.Snapshot)
	case len(known) == 0 && ask.Mode != ModeNone:
		return admission.Invalid("the server does not know what the cluster was when %.80q was taken; restore it with mode %s", r.Snapshot, ModeNone)
	case len(known) == 0:
		return nil
	}
	s, target, err := a.pick(c, *r, known)
	if err != nil {
		return err
	}
	if ok, why := a.Restorable(s); !ok {
		return admission.Invalid("snapshot %s cannot be restored: %s", s.Name(), why)
	}
	r.Target, r.Snapshot, r.TokenHash = target, s.File, s.TokenHash
	if s.Machine == records.SnapshotInS3 {
		r.FromS3, r.Snapshot, r.Size = true, s.Name(), s.Size
	}
	if ask.Mode != ModeNone && unknown(s) {
		return admission.Invalid("the server does not know what the cluster was when %s was taken; restore it with mode %s", s.Name(), ModeNone)
	}
	if ask.Mode != ModeNone {
		spec := become(c.Spec, s.Spec, ask.Mode)
		then := c
		then.Spec = spec
		for _, key := range spec.Objects(c.Namespace) {
			if o, ok := a.State.Objects.Get(key); (!ok || !references.Usable(then, o.Value)) && !slices.Contains(c.Spec.Objects(c.Namespace), key) {
				return admission.Invalid("with mode %s the cluster would name %s again, and there is none that it may use: apply the cluster with it first, or restore with mode %s", ask.Mode, objects.Named(key), ModeNone)
			}
		}
		r.Spec = &spec
	}
	return nil
}

// become is what a cluster is to be after a restore. What leads to hosts and to snapshots stays as it is.
func become(now, then clusterspec.Spec, mode string) clusterspec.Spec {
	spec := now
	spec.KubernetesVersion = then.KubernetesVersion
	if mode != ModeAll || now.RKEConfig == nil || then.RKEConfig == nil {
		return spec
	}
	rke, was := *now.RKEConfig, then.RKEConfig
	rke.MachineGlobalConfig, rke.MachineSelectorConfig, rke.ChartValues = was.MachineGlobalConfig, was.MachineSelectorConfig, was.ChartValues
	rke.Registries, rke.UpgradeStrategy, rke.AdditionalManifest, rke.Networking = was.Registries, was.UpgradeStrategy, was.AdditionalManifest, was.Networking
	spec.RKEConfig = &rke
	return spec
}

// Restorable says whether a snapshot can be restored today by what the server knows, and why not. What only the host
// knows is looked at before anything is stopped.
func (a *Service) Restorable(s records.Snapshot) (ok bool, why string) {
	m, there := a.State.Machines.Get(s.Cluster.Namespace() + "/" + s.Machine)
	secrets, _ := a.State.ClusterSecrets.Get(string(s.Cluster))
	switch {
	case s.Fault != "":
		return false, "it could not be taken: " + s.Fault
	case s.Machine != records.SnapshotInS3 && (!there || !m.Value.Deleting.IsZero()):
		return false, "the cluster has no machine " + s.Machine + " any more; if its host is still there, copy the file to one of the cluster and restore it by its path"
	case !s.Missing.IsZero():
		return false, "it is not listed any more since " + s.Missing.UTC().Format(time.RFC3339)
	case s.TokenHash != "" && !slices.Contains(secrets.Value.TokenHashes(), s.TokenHash):
		return false, "it was taken with another server token; if you have that, drover clusters token " + s.Cluster.Name() + " --add FILE brings it"
	case s.Machine == records.SnapshotInS3:
		if err := a.reachable(s.Cluster); err != nil {
			return false, err.Error()
		}
	}
	return true, ""
}
