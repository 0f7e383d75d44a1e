// The removal of snapshots of RKE1 clusters by DELETE of an etcdBackup of /v3: an operation takes a snapshot off the hosts and out of
// the bucket, and its etcdBackup is listed until that has ended.

package management

import (
	"net/http"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
	"github.com/drover-project/drover/server/rke/want"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/turns"
)

// RemoveETCDBackup serves DELETE of an etcdBackup: 200 with it while it is being removed. Runner begins the operation; nil refuses it.
func RemoveETCDBackup(v3 *API, s *state.State, runner *rke.Runner) Handler {
	return func(c *Request) (route.Answer, error) {
		clusterID, id, _ := strings.Cut(c.ID(), ":")
		cluster, ok := s.ClustersByID.First(clusterID)
		if !ok || runner == nil {
			return route.Answer{}, norman.Missing("etcdBackup", c.ID())
		}
		shown := c.Object()
		switch shown.Fields["state"] {
		case "removing":
			return v3.AfterRemoval(c)
		case "activating":
			return route.Answer{}, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidState, "snapshot %s is being taken: remove it when it is there", id)
		}
		file, _ := shown.Fields["filename"].(string)
		wish := want.Wish{Kind: want.KindRemoveSnapshot, ID: id, Snapshot: strings.TrimSuffix(file, ".zip")}
		if _, err := runner.Ask(c.Ctx(), records.ClusterKey(cluster.Key), rke.Asked{Wish: wish, By: c.Who.UserID, Turn: turns.Refuse}); err != nil {
			return route.Answer{}, err
		}
		return v3.AfterRemoval(c)
	}
}
