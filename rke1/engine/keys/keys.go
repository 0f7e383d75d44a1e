// Package keys has the keys that Secrets are encrypted with: they are deployed, Secrets are written again, and old keys go.
package keys

import (
	"context"
	"fmt"
	"path"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/engine/api"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/state"
)

// SpreadKey lets the first roll of several API servers only read with the first key of a cluster: one that wrote with
// it would write what the others cannot read yet.
func SpreadKey(r *run.Run) {
	is := r.State.Desired.Encryption
	if is == "" || r.Fresh() || r.Before.Current.Encryption != "" || len(r.NodesWith(config.RoleControlPlane)) < 2 {
		return
	}
	if text, err := state.StopEncrypting(is); err == nil {
		r.Encryption = &text
	}
}

// EncryptSecrets writes every Secret again when the API servers write them otherwise than before. It comes before the state
// says so: a run that was interrupted does it again.
func EncryptSecrets(ctx context.Context, r *run.Run) error {
	is := r.State.Desired.Encryption
	if is == "" {
		return forgetKeys(ctx, r)
	}
	if r.Fresh() && !r.Stale || !r.Fresh() && r.Before.Current.Encryption == is {
		return nil
	}
	if r.Encryption != nil && *r.Encryption != is {
		if err := deployEncryption(ctx, r, is); err != nil {
			return err
		}
		r.Encryption = nil
		if err := reach.MakePlan(r); err != nil {
			return err
		}
	}
	return RewriteSecrets(ctx, r, is)
}

// forgetKeys removes the file of the encryption keys from control plane hosts, once no API server there has it among its arguments.
func forgetKeys(ctx context.Context, r *run.Run) error {
	if r.Work.UpdateOnly {
		return nil
	}
	return run.Each(ctx, r.With(config.RoleControlPlane), run.Parallel, func(ctx context.Context, h *run.Host) error {
		name := path.Join(h.Prefix, desired.EncryptionFile)
		if _, there := h.Written[name]; !there {
			return nil
		}
		r.Line("file-deploy", "Removing file [%s] from node [%s]", name, h.Node.Address)
		return run.RemoveFiles(ctx, r, h, []string{name})
	})
}

// deployEncryption gives all API servers a text, and restarts one after the other.
func deployEncryption(ctx context.Context, r *run.Run, text string) error {
	before := r.RestartsOnly
	r.RestartsOnly, r.Encryption = true, &text
	defer func() { r.RestartsOnly = before }()
	if err := reach.MakePlan(r); err != nil {
		return err
	}
	hosts := r.With(config.RoleControlPlane)
	if err := run.Each(ctx, hosts, run.Parallel, r.On(plane.DeployTo)); err != nil {
		return err
	}
	if err := run.Each(ctx, hosts, run.Parallel, r.On(reach.Look)); err != nil {
		return err
	}
	for _, h := range hosts {
		if err := r.SafePoint(); err != nil {
			return err
		}
		if err := plane.BringPlane(r, config.RoleControlPlane)(ctx, h); err != nil {
			return err
		}
	}
	return api.Open(ctx, r)
}

// rewriteTries is how often all Secrets are written again before one that stays as it was is an error: other
// clients of the API may write Secrets at the same time.
const rewriteTries = 3

// RewriteSecrets writes every Secret again and asks etcd whether all of them are as a text says. The error says how many are still as before, or is
// that of the API or of etcd.
func RewriteSecrets(ctx context.Context, r *run.Run, text string) error {
	prefix, err := state.StoredPrefix(text)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		r.Line("rewrite-secrets", "Rewriting cluster secrets")
		n, err := r.API.RewriteSecrets(ctx)
		if err != nil {
			return err
		}
		left, err := Otherwise(ctx, r, prefix)
		if err != nil {
			return err
		}
		if left == 0 {
			r.Line("rewrite-secrets", "Operation completed, %d secrets rewritten", n)
			return nil
		}
		if attempt == rewriteTries {
			return fmt.Errorf("%d secrets in etcd are still not written as they should be; no key was removed, and the next run tries again", left)
		}
	}
}

// SecretsPage is how many values of etcd are read at a time.
const SecretsPage = 100

// Otherwise counts the Secrets in etcd whose values do not begin with a prefix; "" is plain text. The error is that of etcd.
func Otherwise(ctx context.Context, r *run.Run, prefix string) (left int, err error) {
	hosts := r.With(config.RoleEtcd)
	if len(hosts) == 0 {
		r.Report.Warn("the etcd of this cluster is external: whether every Secret in it was written again cannot be seen")
		return 0, nil
	}
	dir := "/registry/secrets/"
	if other := r.Work.Config.Services.KubeAPI.ExtraArgs["etcd-prefix"]; other != "" {
		dir = strings.TrimSuffix(other, "/") + "/secrets/"
	}
	for key, end := dir, clientv3.GetPrefixRangeEnd(dir); ; {
		var page *clientv3.GetResponse
		err := plane.Ask(ctx, r, hosts[0], "read the Secrets", func(ctx context.Context, c *clientv3.Client) (err error) {
			page, err = c.Get(ctx, key, clientv3.WithRange(end), clientv3.WithLimit(SecretsPage))
			return err
		})
		if err != nil {
			return 0, err
		}
		for _, kv := range page.Kvs {
			if !storedAs(string(kv.Value[:min(len(kv.Value), 256)]), prefix) {
				left++
			}
			key = string(kv.Key) + "\x00"
		}
		if !page.More {
			return left, nil
		}
	}
}

// storedAs says whether a value of etcd was written with a prefix; "" is plain text.
func storedAs(value, prefix string) bool {
	if prefix == "" {
		return !strings.HasPrefix(value, state.PlainNever)
	}
	return strings.HasPrefix(value, prefix)
}

// KeepEncryption deploys a text and notes that every API server has it. The errors are those of deploying and of saving the state.
func KeepEncryption(ctx context.Context, r *run.Run, text string) error {
	if err := deployEncryption(ctx, r, text); err != nil {
		return err
	}
	next := &state.State{Desired: r.State.Desired, Current: r.State.Current}
	next.Current.Encryption = text
	if err := api.Keep(ctx, r, next); err != nil {
		return err
	}
	r.Before.Current.Encryption = text
	return nil
}

// DropOldKeys leaves the new key alone. The errors are those of deploying and of saving the state; the old keys are still read then.
func DropOldKeys(ctx context.Context, r *run.Run, rotating string) error {
	text, err := state.DropOldKeys(rotating)
	if err != nil {
		return err
	}
	if err := deployEncryption(ctx, r, text); err != nil {
		return err
	}
	done := &state.State{Desired: r.State.Desired, Current: r.State.Current}
	done.Desired.Encryption, done.Current.Encryption = text, text
	if err := api.Keep(ctx, r, done); err != nil {
		return err
	}
	r.Line("encryption", "Successfully rotated the encryption key; snapshots from before need the key that their own state has: take a new one now")
	return nil
}
