// Encryption of Secrets: turned on, turned off, and moved to another key. No key goes before
// every Secret was written again, and etcd was asked what it has. What was interrupted goes on
// from the texts in the state; nothing is rolled back.

package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"path"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/state"
)

// encrypting is the text that is being deployed to the API servers.
func (r *run) encrypting() string {
	if r.encryption != nil {
		return *r.encryption
	}
	return r.state.Desired.Encryption
}

// spreadKey lets the first roll of several API servers only read with the first key of a cluster: one that wrote with
// it would write what the others cannot read yet.
func (r *run) spreadKey() {
	is := r.state.Desired.Encryption
	if is == "" || r.fresh() || r.before.Current.Encryption != "" || len(r.nodesWith(config.RoleControlPlane)) < 2 {
		return
	}
	if text, err := state.StopEncrypting(is); err == nil {
		r.encryption = &text
	}
}

// encryptSecrets writes every Secret again when the API servers write them otherwise than before. It comes before the state
// says so: a run that was interrupted does it again.
func (r *run) encryptSecrets(ctx context.Context) error {
	is := r.state.Desired.Encryption
	if is == "" {
		return r.forgetKeys(ctx)
	}
	if r.fresh() && !r.stale || !r.fresh() && r.before.Current.Encryption == is {
		return nil
	}
	if r.encryption != nil && *r.encryption != is {
		if err := r.deployEncryption(ctx, is); err != nil {
			return err
		}
		r.encryption = nil
		if err := r.makePlan(); err != nil {
			return err
		}
	}
	return r.rewriteSecrets(ctx, is)
}

// forgetKeys removes the file of the keys once no API server is told to read it.
func (r *run) forgetKeys(ctx context.Context) error {
	if r.work.UpdateOnly {
		return nil
	}
	return each(ctx, r.with(config.RoleControlPlane), parallel, func(ctx context.Context, h *host) error {
		name := path.Join(h.prefix, desired.EncryptionFile)
		if _, there := h.written[name]; !there {
			return nil
		}
		r.line("file-deploy", "Removing file [%s] from node [%s]", name, h.node.Address)
		return r.removeFiles(ctx, h, []string{name})
	})
}

// deployEncryption gives all API servers a text, and restarts one after the other.
func (r *run) deployEncryption(ctx context.Context, text string) error {
	before := r.restartsOnly
	r.restartsOnly, r.encryption = true, &text
	defer func() { r.restartsOnly = before }()
	if err := r.makePlan(); err != nil {
		return err
	}
	hosts := r.with(config.RoleControlPlane)
	if err := each(ctx, hosts, parallel, r.deployTo); err != nil {
		return err
	}
	if err := each(ctx, hosts, parallel, r.look); err != nil {
		return err
	}
	for _, h := range hosts {
		if err := r.safePoint(); err != nil {
			return err
		}
		if err := r.bringPlane(config.RoleControlPlane)(ctx, h); err != nil {
			return err
		}
	}
	return r.openAPI(ctx)
}

// rewriteTries is how often all Secrets are written again before one that stays as it was is an error: somebody may
// write while they are.
const rewriteTries = 3

// rewriteSecrets writes every Secret again and asks etcd whether all of them are as a text says.
func (r *run) rewriteSecrets(ctx context.Context, text string) error {
	prefix, err := state.StoredPrefix(text)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		r.line("rewrite-secrets", "Rewriting cluster secrets")
		n, err := r.api.RewriteSecrets(ctx)
		if err != nil {
			return err
		}
		left, err := r.otherwise(ctx, prefix)
		if err != nil {
			return err
		}
		if left == 0 {
			r.line("rewrite-secrets", "Operation completed, %d secrets rewritten", n)
			return nil
		}
		if attempt == rewriteTries {
			return fmt.Errorf("%d secrets in etcd are still not written as they should be; no key was removed, and the next run tries again", left)
		}
	}
}

// secretsPage is how many values of etcd are read at a time.
const secretsPage = 100

// otherwise counts the Secrets in etcd whose values do not begin with a prefix; "" is plain text.
func (r *run) otherwise(ctx context.Context, prefix string) (left int, err error) {
	hosts := r.with(config.RoleEtcd)
	if len(hosts) == 0 {
		r.Report.Warn("the etcd of this cluster is somebody else's: whether every Secret in it was written again cannot be seen")
		return 0, nil
	}
	dir := "/registry/secrets/"
	if other := r.work.Config.Services.KubeAPI.ExtraArgs["etcd-prefix"]; other != "" {
		dir = strings.TrimSuffix(other, "/") + "/secrets/"
	}
	for key, end := dir, clientv3.GetPrefixRangeEnd(dir); ; {
		var page *clientv3.GetResponse
		err := r.ask(ctx, hosts[0], "read the Secrets", func(ctx context.Context, c *clientv3.Client) (err error) {
			page, err = c.Get(ctx, key, clientv3.WithRange(end), clientv3.WithLimit(secretsPage))
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

// stopEncrypting has every Secret written in plain text, so that the keys can go. The file and its flag stay until then.
func stopEncrypting(ctx context.Context, o Options, w Work) (*state.State, error) {
	if err := change.Unfinished(w.Before); err != nil {
		return w.Before, err
	}
	text, err := state.StopEncrypting(w.Before.Current.Encryption)
	if err != nil {
		return w.Before, err
	}
	return onServers(ctx, o, w, w.Before, []phase{
		{"plain", "Write Secrets in plain text", func(r *run, ctx context.Context) error {
			if err := r.keepEncryption(ctx, text); err != nil {
				return err
			}
			return r.rewriteSecrets(ctx, text)
		}},
	})
}

// onServers runs phases on what is deployed, with every API server reached. next is saved first.
func onServers(ctx context.Context, o Options, w Work, next *state.State, phases []phase) (*state.State, error) {
	cfg, err := change.AsDeployed(w.cluster())
	if err != nil {
		return w.Before, err
	}
	w.Config = cfg
	r := newRun(o, w)
	defer r.close()
	r.state, r.restartsOnly, r.encryption = next, true, &w.Before.Current.Encryption
	r.certificates = w.Before.Current.Certificates
	begin := []phase{
		{"hosts", "Reach the hosts", func(r *run, ctx context.Context) error { return r.reachAll(ctx, config.RoleControlPlane) }},
		{"compare", "Compare with what runs", (*run).compare},
		{"state", "Keep the state", func(r *run, ctx context.Context) error { return r.save(ctx, next) }},
		{"api", "Ask the API", (*run).openAPI},
	}
	err = r.perform(ctx, append(begin, phases...))
	return r.lastSaved(), err
}

// keepEncryption deploys a text and notes that every API server has it.
func (r *run) keepEncryption(ctx context.Context, text string) error {
	if err := r.deployEncryption(ctx, text); err != nil {
		return err
	}
	next := &state.State{Desired: r.state.Desired, Current: r.state.Current}
	next.Current.Encryption = text
	if err := r.keep(ctx, next); err != nil {
		return err
	}
	r.before.Current.Encryption = text
	return nil
}

// RotateKey has every Secret encrypted with a new key, and goes on with a rotation that was interrupted. The old key goes
// when etcd has nothing any more that was written with it. The state that it returns is the last that was saved.
func RotateKey(ctx context.Context, o Options, w Work) (*state.State, error) {
	next, steps, err := change.KeyRotation(w.cluster(), rand.Reader)
	if err != nil {
		return w.Before, err
	}
	return onServers(ctx, o, w, next, []phase{
		{"keys", "Deploy the new key", func(r *run, ctx context.Context) error {
			for i, text := range steps {
				r.line("encryption", "Deploying encryption keys, step %d of %d", i+1, len(steps))
				if err := r.keepEncryption(ctx, text); err != nil {
					return err
				}
			}
			return nil
		}},
		{"secrets", "Write every Secret again", func(r *run, ctx context.Context) error { return r.rewriteSecrets(ctx, next.Desired.Encryption) }},
		{"old-key", "Remove the old key", func(r *run, ctx context.Context) error { return r.dropOldKeys(ctx, next.Desired.Encryption) }},
	})
}

// dropOldKeys leaves the new key alone.
func (r *run) dropOldKeys(ctx context.Context, rotating string) error {
	text, err := state.DropOldKeys(rotating)
	if err != nil {
		return err
	}
	if err := r.deployEncryption(ctx, text); err != nil {
		return err
	}
	done := &state.State{Desired: r.state.Desired, Current: r.state.Current}
	done.Desired.Encryption, done.Current.Encryption = text, text
	if err := r.keep(ctx, done); err != nil {
		return err
	}
	r.line("encryption", "Successfully rotated the encryption key; snapshots from before need the key that their own state has: take a new one now")
	return nil
}

// PreviewRotateKey says what RotateKey would do, a line each, and does nothing.
func PreviewRotateKey(ctx context.Context, o Options, w Work) ([]string, error) {
	_, steps, err := change.KeyRotation(w.cluster(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if w.Config, err = change.AsDeployed(w.cluster()); err != nil {
		return nil, err
	}
	r := newRun(o, w)
	defer r.close()
	if err := r.reachAll(ctx, config.RoleControlPlane); err != nil {
		return nil, err
	}
	var lines []string
	for i := range steps {
		lines = append(lines, fmt.Sprintf("step %d of %d: the API servers get the new key beside the old one", i+1, len(steps)))
		lines = append(lines, apiServers(r.with(config.RoleControlPlane))...)
	}
	lines = append(lines, "every Secret is written again, and etcd is asked whether all are", "the API servers get the new key alone")
	return append(lines, apiServers(r.with(config.RoleControlPlane))...), nil
}
