// The run that makes a cluster what its config says.

package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

// upPhases are in the order of rke up. New etcd members come before the hosts that leave are
// removed, so that a cluster never has fewer than it must.
var upPhases = []phase{
	{"hosts", "Reach the hosts", (*run).reach},
	{"compare", "Compare with what runs", (*run).compare},
	{"ports", "Check the ports", (*run).checkHosts},
	{"images", "Pull images", (*run).pullImages},
	{"certificates", "Deploy certificates and files", (*run).deployFiles},
	{"etcd", "etcd", (*run).etcdPlane},
	{"control-plane", "Control plane", (*run).controlPlane},
	{"secrets", "Encryption of Secrets", (*run).encryptSecrets},
	{"state", "Keep the state", (*run).keepState},
	{"workers", "Worker plane", (*run).workerPlane},
	{"nodes", "Labels and taints", (*run).syncNodes},
	{"leave", "Remove hosts", (*run).removeHosts},
	{"addons", "Add-ons", (*run).deployAddons},
	{"end", "End", (*run).end},
}

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
		parts = append(parts, "Provisioning incomplete, host(s) ["+strings.Join(sortedKeys(e.Skipped), ",")+"] skipped because they could not be contacted")
	}
	for _, err := range e.Failed {
		parts = append(parts, err.Error())
	}
	return strings.Join(parts, "; ")
}

// Init makes the next state of a cluster from its config, and does nothing on hosts.
func Init(w Work, src pki.Source) (*state.State, []pki.Change, error) {
	var before pki.Bundle
	if w.Before != nil {
		before = w.Before.Desired.Certificates
	}
	if err := change.Unfinished(w.Before); err != nil {
		return nil, nil, err
	}
	certificates, changes, err := change.Certificates(w.cluster(), before, src)
	if err != nil {
		return nil, nil, err
	}
	next, err := state.Next(w.Before, w.Config, certificates, rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	return next, changes, nil
}

var errWorkersAlone = advice.With(errors.New("services.kube-api.secrets_encryption_config has changed, which the workers alone do not make so"), advice.Step{Kind: advice.AllHosts})

// Up brings a cluster to its config. The state that it returns is the last that was saved,
// also beside an error. The error is *IncompleteError when some hosts are left to do.
func Up(ctx context.Context, o Options, w Work) (*state.State, error) {
	if change.Stops(w.cluster()) {
		if w.UpdateOnly {
			return w.Before, errWorkersAlone
		}
		plain, err := stopEncrypting(ctx, o, w)
		if err != nil {
			return plain, err
		}
		w.Before = plain
	}
	r := newRun(o, w)
	defer r.close()
	r.line("", "Initiating Kubernetes cluster")
	next, changes, err := Init(w, o.Source())
	if err != nil {
		return w.Before, err
	}
	if err := r.workersAlone(next); err != nil {
		return w.Before, err
	}
	for _, c := range changes {
		r.line("", "%s", c.Line)
	}
	if err := r.save(ctx, next); err != nil {
		return w.Before, err
	}
	r.warnOfEnds()
	if state.RotatesKey(next.Desired.Encryption) {
		r.Report.Warn("a rotation of the encryption key is open", advice.Step{Kind: advice.ResumeKey})
	}
	r.spreadKey()
	err = r.perform(ctx, upPhases)
	return r.state, err
}

// warnOfEnds says which of the deployed certificates have ended or soon end: a run does not renew them.
func (r *run) warnOfEnds() {
	now := r.Now()
	all, err := pki.Warnings(r.before.Current.Certificates, now)
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
func (r *run) workersAlone(next *state.State) error {
	switch {
	case !r.work.UpdateOnly:
		return nil
	case r.fresh():
		return advice.With(errors.New("the workers alone are changed of a cluster that is there, and this one is new"), advice.Step{Kind: advice.AllHosts})
	case next.Desired.Encryption != r.before.Current.Encryption:
		return errWorkersAlone
	}
	for _, n := range r.work.Config.Nodes {
		was, _ := find(r.deployed(), n.Address)
		for _, role := range []string{config.RoleEtcd, config.RoleControlPlane} {
			if n.Has(role) != was.Has(role) {
				return advice.With(fmt.Errorf("workers alone are to be changed, and host %s gets or loses role %s", n.Address, role), advice.Step{Kind: advice.AllHosts})
			}
		}
	}
	return nil
}

// save keeps a state and remembers it.
func (r *run) save(ctx context.Context, s *state.State) error {
	if err := r.Save(ctx, s); err != nil {
		return fmt.Errorf("keep the cluster's state: %w", err)
	}
	r.state, r.saved = s, true
	return nil
}

// lastSaved is the state that was saved last, that of before when none was.
func (r *run) lastSaved() *state.State {
	if r.saved {
		return r.state
	}
	return r.work.Before
}

// end sums up.
func (r *run) end(ctx context.Context) error {
	r.firstSnapshots(ctx)
	r.line("", "%d calls of the Docker API of %d hosts", r.calls(), len(r.hosts))
	if len(r.down) > 0 || len(r.failures) > 0 {
		return &IncompleteError{Skipped: r.down, Failed: r.failures}
	}
	r.line("", "Finished building Kubernetes cluster successfully")
	return nil
}

// fail records what went wrong on one host while the run goes on with the others.
func (r *run) fail(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, err)
	r.warn(err)
}

// warn reports an error that does not end the run.
func (r *run) warn(err error) { r.Report.Warn(err.Error(), advice.Of(err)...) }

// IsIncomplete says that a run came to its end with hosts left to do.
func IsIncomplete(err error) bool {
	var incomplete *IncompleteError
	return errors.As(err, &incomplete)
}

// Step names a part of a run, as Report.Phase does.
type Step struct{ ID, Title string }

// UpSteps are the parts of Up, and RemoveSteps those of Remove, in their order.
func UpSteps() []Step { return steps(upPhases) }

// RemoveSteps are the parts of Remove, in their order.
func RemoveSteps() []Step { return steps(removePhases) }

func steps(phases []phase) []Step {
	all := make([]Step, len(phases))
	for i, p := range phases {
		all[i] = Step{ID: p.id, Title: p.title}
	}
	return all
}
