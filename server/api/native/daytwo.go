// Snapshots, restores and rotations of clusters that run: each is an operation, which the answer shows.

package native

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/daytwo"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/planner/ops"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/turns"
	"github.com/drover-project/drover/server/views"
)

// maxAsk is the largest body of such a request, in bytes.
const maxAsk = 64 << 10

// DayTwoAPI serves what people ask for on clusters that run.
type DayTwoAPI struct {
	*API
	Asker *daytwo.Asker
	// Refresh asks a cluster for its snapshots; nil asks none.
	Refresh func(ctx context.Context, key records.ClusterKey) error
}

// ListSnapshots is GET /v1-drover/clusters/{namespace}/{name}/snapshots.
func (a DayTwoAPI) ListSnapshots(c *route.Call) (route.Answer, error) {
	d, err := a.findCluster(c)
	if err != nil {
		return route.Answer{}, err
	}
	answer := views.Snapshots{Data: []views.Snapshot{}}
	if a.Refresh != nil {
		if err := a.Refresh(c.Ctx(), records.ClusterKey(d.Key)); err != nil {
			answer.Stale = err.Error()
		}
	}
	for _, s := range a.State.Snapshots.ListIn(d.Key + "/") {
		ok, why := a.Asker.Restorable(s.Value)
		answer.Data = append(answer.Data, views.OfSnapshot(s.Value, ok, why))
	}
	slices.SortStableFunc(answer.Data, func(x, y views.Snapshot) int { return y.Created.Compare(x.Created) })
	return route.Answer{Status: http.StatusOK, Body: answer}, nil
}

// CreateSnapshot is POST /v1-drover/clusters/{namespace}/{name}/take-snapshot?queue=true with a views.SnapshotRequest.
func (a DayTwoAPI) CreateSnapshot(c *route.Call) (route.Answer, error) {
	var r views.SnapshotRequest
	return a.begin(c, &r, func() (daytwo.Ask, error) {
		return daytwo.Ask{Kind: ops.KindSnapshot, Request: ops.Request{Name: r.Name, Machines: r.Machines}}, nil
	})
}

// Restore is POST /v1-drover/clusters/{namespace}/{name}/restore?queue=true&replace=true with a views.RestoreRequest.
func (a DayTwoAPI) Restore(c *route.Call) (route.Answer, error) {
	var r views.RestoreRequest
	return a.begin(c, &r, func() (daytwo.Ask, error) {
		return daytwo.Ask{Kind: ops.KindRestore, Mode: r.Mode, Request: ops.Request{Snapshot: r.Snapshot, Target: r.Machine}}, nil
	})
}

// Rotate is POST /v1-drover/clusters/{namespace}/{name}/rotate?queue=true with a views.RotateRequest.
func (a DayTwoAPI) Rotate(c *route.Call) (route.Answer, error) {
	var r views.RotateRequest
	return a.begin(c, &r, func() (daytwo.Ask, error) {
		switch {
		case r.What == "certificates":
			return daytwo.Ask{Kind: ops.KindCertificates, Request: ops.Request{Services: r.Services}}, nil
		case r.What == "encryption-keys" && len(r.Services) == 0:
			return daytwo.Ask{Kind: ops.KindKeys}, nil
		case r.What == "encryption-keys":
			return daytwo.Ask{}, norman.Invalid(norman.InvalidOption, "services", "an encryption key is not one of a service")
		}
		return daytwo.Ask{}, norman.Invalid(norman.InvalidOption, "what", "%.40q is neither certificates nor encryption-keys", r.What)
	})
}

// begin reads a request, begins its operation, and answers with that.
func (a DayTwoAPI) begin(c *route.Call, body any, ask func() (daytwo.Ask, error)) (route.Answer, error) {
	d, err := a.findCluster(c)
	if err != nil {
		return route.Answer{}, err
	}
	how, err := request(c)
	if err != nil {
		return route.Answer{}, err
	}
	text, err := norman.ReadBody(c.W, c.R, maxAsk)
	if err != nil {
		return route.Answer{}, err
	}
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.DisallowUnknownFields()
	if err := reader.Decode(body); err != nil {
		return route.Answer{}, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "the body is not what this request takes: %v", err)
	}
	asked, err := ask()
	if err != nil {
		return route.Answer{}, err
	}
	asked.By, asked.Turn = c.Who.UserID, how.Turn
	if asked.Turn == turns.Replace && asked.Kind != ops.KindRestore {
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "replace", "only a restore takes the place of a change that is under way")
	}
	o, err := a.Asker.Begin(c.Ctx(), records.ClusterKey(d.Key), asked)
	if bad, ok := errors.AsType[*daytwo.InvalidError](err); ok {
		return route.Answer{}, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidOption, "%s", bad.Reason)
	}
	if err != nil {
		return route.Answer{}, err
	}
	a.Logger.Info("operation asked for", "operation", o.ID, "kind", o.Kind, "cluster", d.Key, "user", c.Who.UserID)
	stored, ok := a.State.Operations.Get(o.Key())
	if !ok {
		stored = store.Document[operations.Operation]{Key: o.Key(), Value: o}
	}
	return route.Answer{Status: http.StatusAccepted, Body: views.OfOperation(stored)}, nil
}
