// What a cluster is to have.

package clusteragents

import "github.com/drover-project/drover/server/records"

type want int

const (
	nothing want = iota
	deploying
	cleaning
)

// wants decides what a cluster is to have: by itself, by what is known of its agent, and by the setting.
func wants(c records.Cluster, known bool, is records.ClusterAgent, setting string) want {
	switch {
	case c.Spec.Imported() && !c.Deleting.IsZero():
		if c.Leave.Uninstall && known && is.Cleaned.IsZero() {
			return cleaning
		}
	case !c.Deleting.IsZero(), c.MayChange() != nil:
	case c.Spec.Imported() && is.Ready(), !c.Spec.Imported() && setting == All && c.Status.Initialized && c.Paused == nil:
		return deploying
	}
	return nothing
}
