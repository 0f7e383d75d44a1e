// Drover's own requests, /v1-drover: applying documents whole or not at all, everything
// that is known of a machine, and what its agent says this moment (live.go).

package api

import (
	"errors"
	"net/http"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

func (a *API) serveDrover(c *call, seg []string) {
	if !c.authenticate() {
		return
	}
	switch {
	case len(seg) == 1 && seg[0] == "apply" && c.method == http.MethodPost:
		if !c.who.Admin {
			c.fail(norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "user %s may not apply clusters", c.who.Username))
			return
		}
		c.do(route{do: a.applyDocuments})
	case len(seg) == 3 && seg[0] == "machines":
		if c.onlyReads() {
			c.do(route{do: func(c *call) (answer, error) { return a.machineDetail(c, seg[1]+"/"+seg[2]) }})
		}
	case len(seg) == 4 && seg[0] == "machines" && seg[3] == "dial":
		if c.onlyReads() {
			a.dialHost(c, seg[1]+"/"+seg[2])
		}
	case len(seg) == 1 && seg[0] == "tunnels":
		if c.onlyReads() {
			c.do(route{do: a.listTunnels})
		}
	case len(seg) == 4 && seg[0] == "machines" && (seg[3] == "output" || seg[3] == "status" || seg[3] == "logs"):
		if c.onlyReads() {
			a.askAgent(c, seg[1]+"/"+seg[2], seg[3])
		}
	case len(seg) == 1 && seg[0] == "apply":
		c.fail(norman.Errorf(http.StatusMethodNotAllowed, norman.MethodNotAllow, "%s is not possible here", c.method))
	default:
		c.fail(norman.Errorf(http.StatusNotFound, norman.NotFound, "there is nothing at %s", c.r.URL.Path))
	}
}

// applyDocuments is POST /v1-drover/apply?dryRun=true: a stream of cluster documents,
// YAML or JSON. Either all of them are taken or none.
func (a *API) applyDocuments(c *call) (answer, error) {
	dryRun := false
	switch value := c.query().Get("dryRun"); value {
	case "", "false":
	case "true", "All": // the second is kubectl's word
		dryRun = true
	default:
		return answer{}, norman.Invalid(norman.InvalidOption, "dryRun", "%.40q is neither true nor false", value)
	}
	data, err := norman.ReadBody(c.w, c.r, clusterspec.MaxSize)
	if err != nil {
		return answer{}, err
	}
	docs, err := clusterspec.Parse(data, a.Versions)
	if err != nil {
		return answer{}, err
	}
	results, err := a.apply(c, docs, dryRun)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, body: map[string]any{"results": results, "dryRun": dryRun}}, nil
}

// applyTries bounds how often an apply is done again that another write got in the way of.
const applyTries = 5

func (a *API) apply(c *call, docs []clusterspec.Document, dryRun bool) ([]clusters.Result, error) {
	for try := 1; ; try++ {
		results, err := a.Clusters.Apply(c.ctx(), docs, c.who.UserID, dryRun)
		if _, conflict := errors.AsType[*store.ConflictError](err); conflict && try < applyTries {
			continue
		}
		return results, err
	}
}

// machineDocument is everything of a machine but its secrets.
type machineDocument struct {
	Type            string               `json:"type"`
	ID              string               `json:"id"`
	NodeID          string               `json:"nodeId"`
	Namespace       string               `json:"namespace"`
	Name            string               `json:"name"`
	UID             string               `json:"uid"`
	Revision        int64                `json:"revision"`
	Cluster         string               `json:"clusterName"`
	ClusterID       string               `json:"clusterId"`
	MachineID       string               `json:"machineId"`
	NodeName        string               `json:"nodeName"`
	Roles           records.Roles        `json:"roles"`
	OS              string               `json:"os"`
	Address         []string             `json:"address"`
	InternalAddress []string             `json:"internalAddress"`
	Labels          map[string]string    `json:"labels"`
	NodeLabels      map[string]string    `json:"nodeLabels"`
	NodeTaints      []records.Taint      `json:"nodeTaints"`
	Created         time.Time            `json:"created"`
	Deleting        time.Time            `json:"deleting,omitzero"`
	Refused         string               `json:"refused,omitempty"`
	State           records.MachineState `json:"state"`
	Cause           string               `json:"cause,omitempty"`
	WaitingFor      string               `json:"waitingFor,omitempty"`
	NextStep        string               `json:"nextStep,omitempty"`
	Since           time.Time            `json:"since,omitzero"`
	History         []records.Transition `json:"history"`
	Node            *records.NodeRef     `json:"node,omitempty"`
	Docker          *records.DockerHost  `json:"docker,omitempty"`
	LastFailure     *records.PlanFailure `json:"lastFailure,omitempty"`
	Retries         int                  `json:"retries,omitempty"`
	NextRetry       time.Time            `json:"nextRetry,omitzero"`
}

// machineDetail is GET /v1-drover/machines/{namespace}/{name}.
func (a *API) machineDetail(c *call, key string) (answer, error) {
	d, ok := a.State.Machines.Get(key)
	if !ok || !c.who.Admin {
		return answer{}, norman.Missing("machine", key)
	}
	m := d.Value
	return answer{status: http.StatusOK, body: machineDocument{
		Type: "machine", ID: m.Key(), NodeID: nodeID(m), Namespace: m.Namespace, Name: m.Name, UID: m.UID, Revision: d.Revision,
		Cluster: m.ClusterName, ClusterID: m.ClusterID, MachineID: m.MachineID, NodeName: m.NodeName, Roles: m.Roles, OS: m.OS,
		Address: listOf(m.Address), InternalAddress: listOf(m.InternalAddress), Labels: orEmpty(m.Labels),
		NodeLabels: orEmpty(m.NodeLabels), NodeTaints: taints(m.NodeTaints), Created: m.Created, Deleting: m.Deleting, Refused: m.Refused,
		State: droverState(m), Cause: m.Status.Cause, WaitingFor: m.Status.WaitingFor, NextStep: m.Status.NextStep, Since: m.Status.Since,
		History: history(m), Node: m.Status.Node, Docker: m.Docker, LastFailure: m.Status.LastFailure, Retries: m.Status.Retries, NextRetry: m.Status.NextRetry,
	}}, nil
}

func listOf(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
