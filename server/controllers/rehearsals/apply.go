// Package rehearsals has snapshots of clusters restored on machines that have no cluster, as nothing else proves that a
// backup is one. What is asked for becomes an operation of the machine's fleet, which the planner carries out; the cluster
// goes on as it is.
package rehearsals

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Service begins rehearsals.
type Service struct {
	State *state.State
	// Snapshots says which snapshots can be restored today.
	Snapshots *etcdops.Service
	// Watching says since when the agent that has the plan Secret of the key is there, or away.
	Watching func(secretKey string) (since time.Time, connected bool)
	// InstallerImage gives the prefix of installer images, DefaultRegistry the registry of images that name none.
	InstallerImage, DefaultRegistry func() string
	// Files opens snapshots that hosts of clusters have; nil opens none. Server is the URL of the server as hosts know it, empty while
	// it has none, and the PEM of certificates that they trust beside their system's.
	Files  *etcdops.Files
	Server func() (url, ca string)
	Now    func() time.Time
	// Logger gets who was sent a snapshot, which has all Secrets of its cluster.
	Logger *slog.Logger
}

// Request is a request of a user.
type Request struct {
	// Snapshot is the name of one that the cluster has, or the path of a file on the machine's host.
	Snapshot string
	// Machine is the name of a machine of a fleet. Without it Fleet is the name of one, whose first machine that is free is taken.
	Machine, Fleet string
	// By is the ID of the user.
	By   string
	Turn admission.Turn
	// Foreign says that the caller may have snapshots in the cluster's bucket that may be another cluster's (etcdops.Foreign).
	Foreign bool
}

// chosen is what a rehearsal is made of.
type chosen struct {
	cluster  records.Cluster
	snapshot records.Snapshot
	// record is the key of the snapshot's record; empty when there is none.
	record string
	// path is the snapshot's file on the machine's host; empty for one that is fetched from there.
	path    string
	from    *hostjob.Source
	machine records.Machine
	fleet   store.Document[records.Fleet]
}

// Begin begins a rehearsal of a snapshot of a cluster, or queues it. What does not fit is an *admission.InvalidError;
// *operations.BusyError says that another operation on the machine's fleet is under way.
func (a *Service) Begin(ctx context.Context, key records.ClusterKey, ask Request) (operations.Operation, error) {
	return store.RetryFor(func() (operations.Operation, error) { return a.begin(ctx, key, ask) })
}

// Preview says what Begin would do, a line for each step. The errors are those that Begin would return.
func (a *Service) Preview(ctx context.Context, key records.ClusterKey, ask Request) ([]string, error) {
	c, err := a.choose(ctx, key, ask)
	if err != nil {
		return nil, err
	}
	r := a.rehearsal(c)
	from := fmt.Sprintf("reads %s there", c.path)
	if c.from != nil {
		place := "S3"
		if c.from.Opens != "" {
			place = "machine " + c.snapshot.Machine + " through the server"
		}
		from = fmt.Sprintf("gets %s from %s, %.1f MiB", c.snapshot.Name(), place, float64(c.from.Size)/(1<<20))
	}
	host := c.machine.Name
	if c.machine.NodeName != "" {
		host += " (" + c.machine.NodeName + ")"
	}
	return []string{
		fmt.Sprintf("machine %s of fleet %s %s", host, c.fleet.Value.Name, from),
		fmt.Sprintf("it restores that below %s with k3s of %s, and starts its API on the loopback address, without kubelet, scheduler and controllers", r.Dir, r.Image),
		"it lists every object and counts them, and takes away what it has made",
	}, nil
}

func (a *Service) begin(ctx context.Context, key records.ClusterKey, ask Request) (operations.Operation, error) {
	c, err := a.choose(ctx, key, ask)
	if err != nil {
		return operations.Operation{}, err
	}
	given, err := a.given(c, ask.By)
	if err != nil {
		return operations.Operation{}, err
	}
	subject, link := records.ClusterKey(c.fleet.Key), ""
	if c.from != nil && c.from.Opens != "" {
		link = randomid.Hash(c.from.Opens)
	}
	name := c.snapshot.Name()
	if c.path != "" {
		name = c.path
	}
	o, writes, gone, err := admission.Begin(ctx, a.State, admission.Request{
		Subject: subject, Kind: operations.KindRehearse, Title: fmt.Sprintf("rehearse snapshot %s of cluster %s on machine %s", name, c.cluster.Name, c.machine.Name),
		By: ask.By, Turn: ask.Turn, Once: true,
		Tasks: []operations.Task{{ID: steps.TaskRehearse, Host: c.machine.NodeName}, {ID: steps.TaskCleanUp, Host: c.machine.NodeName}},
		Params: struct {
			Rehearsal steps.Rehearsal `json:"rehearsal"`
		}{steps.Rehearsal{Cluster: key, Snapshot: c.record, Machine: c.machine.Name, Link: link}},
	}, a.Now)
	if err != nil {
		return o, fmt.Errorf("rehearse a snapshot of cluster %s on fleet %s: %w", c.cluster.Name, c.fleet.Value.Name, err)
	}
	// Plans of rehearsals that never began go too, as each has the token of its cluster.
	for _, old := range append(a.State.OperationsOf(subject), gone...) {
		if _, kept := a.State.GivenPlans.Get(old.Key()); kept && old.Kind == operations.KindRehearse && old.State.Ended() {
			writes = append(writes, a.State.GivenPlans.Deleting(old.Key(), 0))
		}
	}
	writes = append(writes, a.State.GivenPlans.Creating(o.Key(), given), a.State.Fleets.Updating(c.fleet))
	if _, err := a.State.Store.Commit(ctx, writes...); err != nil {
		return o, fmt.Errorf("rehearse a snapshot of cluster %s on fleet %s: %w", c.cluster.Name, c.fleet.Value.Name, err)
	}
	return o, nil
}

// given are the plans of a rehearsal.
func (a *Service) given(c chosen, by string) (records.GivenPlan, error) {
	r := a.rehearsal(c)
	p, err := r.Plan()
	if err != nil {
		return records.GivenPlan{}, err
	}
	g := records.GivenPlan{Concurrency: "1", By: by, At: a.Now().UTC()}
	if g.Plan, err = p.Marshal(); err != nil {
		return records.GivenPlan{}, err
	}
	p = r.CleanUp()
	g.After, err = p.Marshal()
	return g, err
}

// rehearsal is what the host does.
func (a *Service) rehearsal(c chosen) hostjob.Rehearsal {
	secrets, _ := a.State.ClusterSecrets.Get(c.cluster.Key())
	// One of before a rotation is read with the token of then.
	if then, ok := secrets.Value.InForce(c.snapshot.TokenHash); ok {
		secrets.Value = then
	}
	r := hostjob.Rehearsal{
		ID: "rehearsal-" + randomid.ID(8), Dir: hostjob.RehearsalDir, Snapshot: c.path,
		Token: secrets.Value.ServerToken, TokenHash: secrets.Value.TokenHash(), Settings: settings(c.snapshot.Spec),
	}
	registry := a.DefaultRegistry()
	if own, _ := merged(c.snapshot.Spec)["system-default-registry"].(string); own != "" {
		registry = own
	}
	r.Image = installers.FromRegistry(registry, runtimes.Of(c.snapshot.Spec.KubernetesVersion).InstallerImage(a.InstallerImage(), c.snapshot.Spec.KubernetesVersion))
	for _, d := range runtimes.All() {
		// Images for hosts without a registry are put below agent/images before a runtime runs.
		r.Runtimes = append(r.Runtimes, d.DefaultDataDir()+"/server", d.DefaultDataDir()+"/agent/containerd")
	}
	if c.from != nil {
		r.Snapshot, r.From = c.snapshot.Name(), c.from
	}
	return r
}

// restored are the settings by which what is in etcd can be read and is what it was; all others are of hosts and pods.
var restored = []string{"cluster-cidr", "service-cidr", "cluster-dns", "cluster-domain", "secrets-encryption", "secrets-encryption-provider"}

func settings(s clusterspec.Spec) map[string]any {
	all, found := merged(s), map[string]any{}
	for _, name := range restored {
		if value, ok := all[name]; ok {
			found[name] = value
		}
	}
	return found
}

// merged is the configuration of all machines of a cluster.
func merged(s clusterspec.Spec) map[string]any {
	all := map[string]any{}
	if s.RKEConfig == nil {
		return all
	}
	add := func(config map[string]any) {
		for name, value := range config {
			if all[name] = value; clusterspec.IsEmptyArg(value) {
				delete(all, name)
			}
		}
	}
	add(s.RKEConfig.MachineGlobalConfig)
	for _, one := range s.RKEConfig.MachineSelectorConfig {
		if one.MachineLabelSelector == nil {
			add(one.Config)
		}
	}
	return all
}

// busy is why a machine that people gave a plan cannot be given that of a rehearsal, which takes its place; empty when it can.
func busy(plan []byte) string {
	if len(plan) == 0 {
		return ""
	}
	p, err := plans.Parse(plan)
	switch {
	case err != nil:
		return "its plan cannot be read"
	case len(p.Probes) > 0 || len(p.PeriodicInstructions) > 0:
		return "it was given a plan with probes or periodic instructions, which would end as a rehearsal takes the place of that plan"
	}
	return ""
}

// version says whether clusters of that Kubernetes version can be rehearsed.
func version(cluster, text string) error {
	if strings.Contains(text, "k3s") {
		return nil
	}
	return admission.Invalid("cluster %s is one of RKE2, which is not rehearsed: its Kubernetes API is a pod, and the kubelet that would run it on a machine of a fleet would run the cluster's other pods there, too. "+
		"Restore the snapshot on a cluster that you can lose, by the path of its file (docs/how-to/restore-a-cluster.md)", cluster)
}
