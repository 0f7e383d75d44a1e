// Giving a cluster away: its files out of the stored state, and the mark that has the server leave it alone.

package rketransfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/drover-project/drover/rke1/export"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/store"
)

// ExportRequest is how a cluster is exported.
type ExportRequest struct {
	// By is the ID of the user.
	By string
	// SSH is how its hosts are reached; what it leaves open becomes a placeholder.
	SSH export.SSH
	// EncryptTo are public keys of those who can read the archive; without any it is a plain tar.
	EncryptTo []string
	// Keep leaves the cluster in the server's hands.
	Keep bool
	// Unfinished and Faulty are those of export.Options.
	Unfinished, Faulty bool
}

// Exported is an export of a cluster. All of Archive is secret.
type Exported struct {
	// Archive is a tar, or an encrypted one.
	Archive []byte
	Sealed  bool
	// Marked says that the server does not touch the cluster from now on, or did not before.
	Marked bool
	// Findings are those of the linter, where the request takes them, and Notes what its owner should know.
	Findings, Notes []string
}

// Export makes the files with which the rke command line takes a cluster over, of the stored state: no host is asked. Then it marks
// the cluster, unless it is to be kept. The error is a *RefusedError where the cluster is not in a state for that, and an
// *export.LintError where the command line could not take it over.
func (d *Desk) Export(ctx context.Context, key records.ClusterKey, r ExportRequest) (*Exported, error) {
	if len(r.EncryptTo) > 0 {
		if _, err := export.Recipients(r.EncryptTo); err != nil {
			return nil, refuse("encryptTo: %v", err)
		}
	}
	return store.RetryFor(func() (*Exported, error) {
		e, err := d.export(ctx, key, r)
		if err != nil {
			return nil, fmt.Errorf("export cluster %s: %w", key, err)
		}
		return e, nil
	})
}

func (d *Desk) export(ctx context.Context, key records.ClusterKey, r ExportRequest) (*Exported, error) {
	cluster, record, s, err := d.find(key)
	if err != nil {
		return nil, err
	}
	if s == nil || s.Current.Config == nil {
		return nil, refuse("nothing of cluster %s was deployed yet, so that there is nothing to export", key.Name())
	}
	mark := !r.Keep && cluster.Value.Exported == nil
	if o, busy := operations.Active(string(key), d.State.OperationsOf(key)); busy && mark {
		return nil, refuse("operation %s on cluster %s is under way (%s): wait until it has ended, or end it with `drover operations abort %s`; --keep exports beside it and leaves the cluster to the server", o.ID, key.Name(), o.Title, o.ID)
	}
	now := d.Now()
	// The state of a cluster that was brought here is as the command line wrote it, with the ways to the hosts.
	own := cluster.Value.Exported == nil || !cluster.Value.Exported.Imported
	made, err := export.Make(s, export.Options{
		Versions: d.Versions, Source: pki.NewSource(now), SSH: r.SSH, OverTunnel: own, Unfinished: r.Unfinished, Faulty: r.Faulty,
	}, now)
	if unfinished, ok := errors.AsType[*export.UnfinishedError](err); ok {
		return nil, refuse("a run on cluster %s has not come to its end: what should be and what was deployed differ in %s; let it succeed (`drover operations ls`), or export it as it is with --unfinished: the first run of rke then finishes it", key.Name(), some(unfinished.Differences))
	}
	if err != nil {
		return nil, err
	}
	e := &Exported{Notes: made.Notes, Marked: !r.Keep || cluster.Value.Exported != nil}
	for _, f := range made.Findings {
		e.Findings = append(e.Findings, f.String())
	}
	e.Notes = append(e.Notes, d.pending(cluster.Value, record.Value, s)...)
	if e.Archive, e.Sealed, err = pack(made.Files, r.EncryptTo, d); err != nil {
		return nil, err
	}
	if !mark {
		return e, nil
	}
	if e.Notes = append(e.Notes, d.agents(key)...); ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	cluster.Value.Exported = &records.Exported{By: r.By, At: now.UTC()}
	// On the condition that the cluster is as it was read: all that begins on it writes it.
	_, err = d.State.Store.Commit(ctx, d.State.Clusters.Updating(cluster))
	return e, err
}

// pack makes one file of all.
func pack(files []export.File, recipients []string, d *Desk) (archive []byte, sealed bool, err error) {
	if len(recipients) > 0 {
		f, err := export.Seal(files, recipients, d.Now())
		return f.Content, true, err
	}
	var b bytes.Buffer
	err = export.Tar(&b, files, d.Now())
	return b.Bytes(), false, err
}

// pending says what the document and the hosts ask for beside what was deployed, which is not exported.
func (d *Desk) pending(cluster records.Cluster, record records.RKEState, s *state.State) []string {
	in := d.input(cluster, s)
	if stamp, err := desired.Stamp(in); err == nil && stamp == record.Done || cluster.Exported != nil && cluster.Exported.Imported {
		return nil
	}
	c, _, err := desired.Config(in)
	if err != nil {
		return []string{"the document of the cluster, or its hosts, were changed since the last run and cannot be carried out; that is not exported"}
	}
	paths, err := export.Pending(c, s, d.known())
	if err != nil || len(paths) == 0 {
		return nil // it was only not brought to its end
	}
	return []string{"the document of the cluster, or its hosts, have changes that no run has deployed, and they are not exported: " + some(paths)}
}

// agents says what is to be done about node agents that repair their hosts and cannot be told now to leave them alone.
func (d *Desk) agents(key records.ClusterKey) []string {
	var away []string
	for _, m := range d.State.MachinesByCluster.Find(key) {
		kept, ok := d.State.NodeConfigs.Get(m.Key)
		if !ok {
			continue
		}
		c, err := nodeconfig.Decode(kept.Value.Config)
		if err == nil && len(c.Processes) > 0 {
			away = append(away, m.Value.NodeName)
		}
	}
	if len(away) == 0 {
		return nil
	}
	return []string{"the node agents of " + some(away) + " repair their hosts by themselves; they are told to leave them alone, within two minutes where they reach the server. " +
		"Where they do not, stop them before the first run of rke, or they put back what it changes"}
}
