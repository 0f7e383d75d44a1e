// The run that makes a cluster what its config says.

package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/addon"
	"github.com/drover-project/drover/rke1/engine/api"
	"github.com/drover-project/drover/rke1/engine/keys"
	"github.com/drover-project/drover/rke1/engine/leave"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/rollout"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/engine/snapshot"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

// The phases that several kinds of runs have.
var (
	comparePhase      = run.Phase{ID: "compare", Title: "Compare with what runs", Run: reach.Compare, Preview: func(ctx context.Context, r *run.Run, _ *run.Changes) error { return reach.Compare(ctx, r) }}
	imagesPhase       = run.Phase{ID: "images", Title: "Pull images", Run: reach.Images}
	filesPhase        = run.Phase{ID: "certificates", Title: "Deploy certificates and files", Run: plane.DeployFiles, Preview: plane.Preview}
	etcdPhase         = run.Phase{ID: "etcd", Title: "etcd", ShouldRun: plane.Own, Run: plane.Plane}
	controlPlanePhase = run.Phase{ID: "control-plane", Title: "Control plane", Run: rollout.ControlPlane}
	secretsPhase      = run.Phase{ID: "secrets", Title: "Encryption of Secrets", Run: keys.EncryptSecrets}
	statePhase        = run.Phase{ID: "state", Title: "Keep the state", Run: api.KeepState}
	workersPhase      = run.Phase{ID: "workers", Title: "Worker plane", Run: rollout.Workers}
	nodesPhase        = run.Phase{ID: "nodes", Title: "Labels and taints", Run: api.SyncNodes}
	addonsPhase       = run.Phase{ID: "addons", Title: "Add-ons", ShouldRun: everything, Run: addon.Deploy, Preview: addon.Preview}
	endPhase          = run.Phase{ID: "end", Title: "End", Run: end}
)

// everything says that not the workers alone are changed.
func everything(r *run.Run) bool { return !r.Work.UpdateOnly }

// upPhases are in the order of rke up. New etcd members come before the hosts that leave are
// removed, so that a cluster never has fewer than it must. Preview goes through the same phases.
var upPhases = []run.Phase{
	{ID: "hosts", Title: "Reach the hosts", Run: reach.All, Preview: reach.Preview},
	comparePhase,
	{ID: "ports", Title: "Check the ports", Run: reach.Check, Preview: func(_ context.Context, r *run.Run, _ *run.Changes) error { return reach.Preflight(r).Settings() }},
	imagesPhase, filesPhase, etcdPhase, controlPlanePhase, secretsPhase, statePhase, workersPhase, nodesPhase,
	{ID: "leave", Title: "Remove hosts", ShouldRun: everything, Run: leave.Hosts, Preview: leave.Preview},
	addonsPhase, endPhase,
}

var errWorkersAlone = advice.With(errors.New("services.kube-api.secrets_encryption_config has changed, which the workers alone do not make so"), advice.Step{Kind: advice.AllHosts})

// Up brings a cluster to its config. The state that it returns is the last that was saved,
// also beside an error. The error is *IncompleteError when some hosts are left to do.
func Up(ctx context.Context, o run.Options, w run.Work) (*state.State, error) {
	if change.Stops(w.Cluster()) {
		if w.UpdateOnly {
			return w.Before, errWorkersAlone
		}
		plain, err := stopEncrypting(ctx, o, w)
		if err != nil {
			return plain, err
		}
		w.Before = plain
	}
	r := run.New(o, w)
	defer r.Close()
	r.Line("", "Initiating Kubernetes cluster")
	next, changes, err := run.Init(w, o.Source())
	if err != nil {
		return w.Before, err
	}
	if err := workersAlone(r, next); err != nil {
		return w.Before, err
	}
	for _, c := range changes {
		r.Line("", "%s", c.Line)
	}
	if err := r.SaveState(ctx, next); err != nil {
		return w.Before, err
	}
	warnOfEnds(r)
	if state.RotatesKey(next.Desired.Encryption) {
		r.Report.Warn("a rotation of the encryption key is open", advice.Step{Kind: advice.ResumeKey})
	}
	keys.SpreadKey(r)
	err = r.Perform(ctx, upPhases)
	return r.State, err
}

// warnOfEnds says which of the deployed certificates have ended or soon end: a run does not renew them.
func warnOfEnds(r *run.Run) {
	now := r.Now()
	all, err := pki.Warnings(r.Before.Current.Certificates, now)
	if err != nil {
		r.Report.Warn(err.Error())
		return
	}
	const most = 3
	said := 0
	for _, e := range all {
		if e.Name == pki.ServiceAccount || e.Name == pki.Admin {
			continue
		}
		if said++; said <= most {
			r.Report.Warn(e.Warning(now), advice.Step{Kind: advice.RenewCertificates})
		}
	}
	if said > most {
		r.Report.Warn(fmt.Sprintf("%d more certificates end, too", said-most))
	}
}

// workersAlone refuses --update-only for what workers cannot be changed without: the state would say that the others have it, too.
func workersAlone(r *run.Run, next *state.State) error {
	switch {
	case !r.Work.UpdateOnly:
		return nil
	case r.Fresh():
		return advice.With(errors.New("the workers alone are changed of a cluster that is there, and this one is new"), advice.Step{Kind: advice.AllHosts})
	case next.Desired.Encryption != r.Before.Current.Encryption:
		return errWorkersAlone
	}
	for _, n := range r.Work.Config.Nodes {
		was, _ := run.Find(r.Deployed(), n.Address)
		for _, role := range []string{config.RoleEtcd, config.RoleControlPlane} {
			if n.Has(role) != was.Has(role) {
				return advice.With(fmt.Errorf("workers alone are to be changed, and host %s gets or loses role %s", n.Address, role), advice.Step{Kind: advice.AllHosts})
			}
		}
	}
	return nil
}

// end sums up.
func end(ctx context.Context, r *run.Run) error {
	snapshot.FirstSnapshots(ctx, r)
	r.Line("", "%d calls of the Docker API of %d hosts", r.Calls(), len(r.Hosts))
	if len(r.Down) > 0 || len(r.Failures) > 0 {
		return &run.IncompleteError{Skipped: r.Down, Failed: r.Failures}
	}
	r.Line("", "Finished building Kubernetes cluster successfully")
	return nil
}

// UpSteps are the parts of Up, and RemoveSteps those of Remove, in their order.
func UpSteps() []run.Step { return run.Steps(upPhases) }

// RemoveSteps are the parts of Remove, in their order.
func RemoveSteps() []run.Step { return run.Steps(removePhases) }
