// Secrets and ConfigMaps that clusters refer to, as documents change them.

package clusters

import (
	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/references"
	"github.com/drover-project/drover/server/store"
)

// granted are the rights of a cluster whose document a user applies; see references.Grant.
func granted(before, after records.Cluster, who auth.Identity, find references.Lookup) map[string]records.Granted {
	return references.Grant(before, after, who.UserID, func(o objects.Object) bool { return auth.May(who, auth.Get, auth.OfShared(o)) }, find)
}

// write is what becomes of Secrets and ConfigMaps, and the writes, beside the results of clusters that are made with them.
func (a *Applier) write(all []Writing, clusters []Result) (results []Result, ops []store.Op) {
	made := map[string]string{}
	for _, r := range clusters {
		if r.Action == Created {
			made[r.Name] = r.ID
		}
	}
	for _, w := range all {
		result := Result{ApplyResult: apitypes.ApplyResult{Kind: w.Value.Kind, Namespace: w.Value.Namespace, Name: w.Value.Name, Action: Unchanged}}
		if w.Changed {
			if result.Action = Created; w.Revision != 0 {
				result.Action = Configured
			}
			ops = append(ops, w.Write(a.State, made))
		}
		if text := Unbound(w.Value); text != "" {
			result.Warnings = []string{text}
		}
		results = append(results, result)
	}
	return results, ops
}
