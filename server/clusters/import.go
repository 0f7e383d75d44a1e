// Clusters that were made elsewhere and are brought here with their state.

package clusters

import (
	"context"
	"fmt"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// OwnedError says that a cluster of the name is there and is the server's to change, so that no other state may take the place of its own.
type OwnedError struct{ Cluster string }

func (e *OwnedError) Error() string {
	return fmt.Sprintf("the server looks after a cluster %s already; give the new one another name, or export that one first (`drover clusters export %s`)", e.Cluster, e.Cluster)
}

// Import stores an RKE1 cluster that runs already, with its state, and with the mark that has the server leave it alone. Of one that
// has the mark already the document and the state are replaced; state gets the record that is there, which may be empty. A dry
// run stores nothing. The error is an *OwnedError where the server looks after a cluster of the name.
func (a *Applier) Import(ctx context.Context, doc clusterspec.Document, by string, dryRun bool, state func(records.RKEState) (records.RKEState, error)) (store.Document[records.Cluster], []string, error) {
	key := records.NewClusterKey(doc.Metadata.Namespace, doc.Metadata.Name)
	d, known := a.State.Clusters.Get(string(key))
	record, kept := a.State.RKEStates.Get(string(key))
	mark := &records.Exported{By: by, At: a.Now().UTC(), Imported: true}
	var ops []store.Op
	switch {
	case !known:
		cluster, more, err := a.new(key, doc, by)
		if err != nil {
			return d, nil, err
		}
		cluster.Exported = mark
		d.Key, d.Value = string(key), cluster
		ops = append(more, a.State.Clusters.Creating(string(key), cluster))
	case !d.Value.Deleting.IsZero():
		return d, nil, &records.RemovingError{Cluster: string(key)}
	case d.Value.Exported == nil:
		return d, nil, fmt.Errorf("import cluster %s: %w", key, &OwnedError{Cluster: key.Name()})
	default:
		d.Value.Exported = mark
		if !clusterspec.Equal(d.Value.Spec, doc.Spec) {
			d.Value.Generation++
		}
		d.Value.Spec = doc.Spec
		ops = append(ops, a.State.Clusters.Updating(d))
	}
	warnings, err := a.CheckRKE1(d.Value)
	if err != nil {
		return d, nil, fmt.Errorf("import cluster %s: %w", key, err)
	}
	if record.Value, err = state(record.Value); err != nil {
		return d, nil, fmt.Errorf("import cluster %s: %w", key, err)
	}
	if dryRun {
		return d, warnings, nil
	}
	if kept {
		ops = append(ops, a.State.RKEStates.Updating(record))
	} else {
		ops = append(ops, a.State.RKEStates.Creating(string(key), record.Value))
	}
	if _, err := a.State.Store.Commit(ctx, ops...); err != nil {
		return d, nil, fmt.Errorf("import cluster %s: %w", key, err)
	}
	return d, warnings, nil
}
