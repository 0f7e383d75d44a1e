// Encryption of Secrets: turned on, turned off, and moved to another key. No key goes before
// every Secret was written again, and etcd was asked what it has. What was interrupted goes on
// from the texts in the state; nothing is rolled back.

package engine

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/api"
	"github.com/drover-project/drover/rke1/engine/keys"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/state"
)

// stopEncrypting has every Secret written in plain text, so that the keys can go. The file and its flag stay until then.
func stopEncrypting(ctx context.Context, o run.Options, w run.Work) (*state.State, error) {
	if err := change.Unfinished(w.Before); err != nil {
		return w.Before, err
	}
	text, err := state.StopEncrypting(w.Before.Current.Encryption)
	if err != nil {
		return w.Before, err
	}
	return onServers(ctx, o, w, w.Before, []run.Phase{
		{ID: "plain", Title: "Write Secrets in plain text", Run: func(ctx context.Context, r *run.Run) error {
			if err := keys.KeepEncryption(ctx, r, text); err != nil {
				return err
			}
			return keys.RewriteSecrets(ctx, r, text)
		}},
	})
}

// onServers runs phases on what is deployed, with every API server reached. next is saved first.
func onServers(ctx context.Context, o run.Options, w run.Work, next *state.State, phases []run.Phase) (*state.State, error) {
	cfg, err := change.AsDeployed(w.Cluster())
	if err != nil {
		return w.Before, err
	}
	w.Config = cfg
	r := run.New(o, w)
	defer r.Close()
	r.State, r.RestartsOnly, r.Encryption = next, true, &w.Before.Current.Encryption
	r.Certificates = w.Before.Current.Certificates
	begin := []run.Phase{
		{ID: "hosts", Title: "Reach the hosts", Run: func(ctx context.Context, r *run.Run) error { return reach.Every(ctx, r, config.RoleControlPlane) }},
		comparePhase,
		{ID: "state", Title: "Keep the state", Run: func(ctx context.Context, r *run.Run) error { return r.SaveState(ctx, next) }},
		{ID: "api", Title: "Ask the API", Run: api.Open},
	}
	err = r.Perform(ctx, append(begin, phases...))
	return r.LastSaved(), err
}

// RotateKey has every Secret encrypted with a new key, and goes on with a rotation that was interrupted. The old key goes
// when etcd has nothing any more that was written with it. The state that it returns is the last that was saved.
func RotateKey(ctx context.Context, o run.Options, w run.Work) (*state.State, error) {
	next, steps, err := change.KeyRotation(w.Cluster(), rand.Reader)
	if err != nil {
		return w.Before, err
	}
	return onServers(ctx, o, w, next, []run.Phase{
		{ID: "keys", Title: "Deploy the new key", Run: func(ctx context.Context, r *run.Run) error {
			for i, text := range steps {
				r.Line("encryption", "Deploying encryption keys, step %d of %d", i+1, len(steps))
				if err := keys.KeepEncryption(ctx, r, text); err != nil {
					return err
				}
			}
			return nil
		}},
		{ID: "secrets", Title: "Write every Secret again", Run: func(ctx context.Context, r *run.Run) error {
			return keys.RewriteSecrets(ctx, r, next.Desired.Encryption)
		}},
		{ID: "old-key", Title: "Remove the old key", Run: func(ctx context.Context, r *run.Run) error {
			return keys.DropOldKeys(ctx, r, next.Desired.Encryption)
		}},
	})
}

// PreviewRotateKey says what RotateKey would do, a line each, and does nothing. The errors are those that RotateKey would begin with.
func PreviewRotateKey(ctx context.Context, o run.Options, w run.Work) ([]string, error) {
	_, steps, err := change.KeyRotation(w.Cluster(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if w.Config, err = change.AsDeployed(w.Cluster()); err != nil {
		return nil, err
	}
	r := run.New(o, w)
	defer r.Close()
	if err := reach.Every(ctx, r, config.RoleControlPlane); err != nil {
		return nil, err
	}
	var lines []string
	for i := range steps {
		lines = append(lines, fmt.Sprintf("step %d of %d: the API servers get the new key beside the old one", i+1, len(steps)))
		lines = append(lines, plane.APIServers(r.With(config.RoleControlPlane))...)
	}
	lines = append(lines, "every Secret is written again, and etcd is asked whether all are", "the API servers get the new key alone")
	return append(lines, plane.APIServers(r.With(config.RoleControlPlane))...), nil
}
