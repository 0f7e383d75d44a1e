// Why something is not well: the tree of causes of the records, with the end of the logs on the hosts
// that can be asked this moment.

package native

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/references"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
)

// Why serves why something is not active.
type Why struct {
	*Common
	// AskAgent is for the logs of hosts; nil shows none.
	AskAgent AskAgent
}

const (
	// logLimit is how long all hosts together may take to answer.
	logLimit = 3 * time.Second
	// maxLogs is how many hosts are asked, those of the first causes.
	maxLogs = 5
	// maxLog bounds what is read of one host's answer, in bytes, and maxLogLine what is shown of a line.
	maxLog     = 64 << 10
	maxLogLine = 1 << 10
)

// Cluster is GET /v1-drover/clusters/{namespace}/{name}/why.
func (a Why) Cluster(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	return a.why(c, d, "")
}

// Machine is GET /v1-drover/machines/{namespace}/{name}/why.
func (a Why) Machine(c *route.Call, d store.Document[records.Machine]) (route.Answer, error) {
	if fleet, ok := a.State.Fleets.Get(string(d.Value.Cluster())); ok {
		return a.fleet(fleet, d.Key)
	}
	cluster, ok := a.State.Clusters.Get(string(d.Value.Cluster()))
	if !ok {
		return route.Answer{}, norman.Missing("cluster", string(d.Value.Cluster()))
	}
	return a.why(c, cluster, d.Key)
}

func (a Why) why(c *route.Call, cluster store.Document[records.Cluster], machine string) (route.Answer, error) {
	key := records.ClusterKey(cluster.Key)
	answer := views.WithFaults(views.OfCauses(cluster.Value, a.machinesOf(key), a.underWay(key), machine), references.Faults(cluster.Value, references.Stored(a.State)))
	hostLogs{a, c}.read(answer.Causes)
	return route.Answer{Status: http.StatusOK, Body: answer}, nil
}

// fleet is why for a fleet. No log is read on its hosts, since nothing is known of what runs there.
func (a Why) fleet(fleet store.Document[records.Fleet], machine string) (route.Answer, error) {
	key := records.ClusterKey(fleet.Key)
	return route.Answer{Status: http.StatusOK, Body: views.OfFleetCauses(fleet.Value, a.machinesOf(key), a.underWay(key), machine)}, nil
}

// machinesOf are the machines of a cluster or a fleet.
func (a *Common) machinesOf(key records.ClusterKey) []records.Machine {
	var machines []records.Machine
	for _, d := range a.State.MachinesByCluster.Find(key) {
		machines = append(machines, d.Value)
	}
	return machines
}

// underWay is the operation that is under way on a cluster or a fleet; nil when none is.
func (a *Common) underWay(key records.ClusterKey) *apitypes.OperationSummary {
	under, ok := operations.Active(string(key), a.State.OperationsOf(key))
	if !ok {
		return nil
	}
	summary := views.SummaryOf(store.Document[operations.Operation]{Key: under.Key(), Value: under})
	if d, ok := a.State.Operations.Get(under.Key()); ok {
		summary = views.SummaryOf(d)
	}
	return &summary
}

// hostLogs reads logs on hosts for one request.
type hostLogs struct {
	a Why
	c *route.Call
}

// read fills in the logs of the causes that have one, of the first of them.
func (h hostLogs) read(causes []apitypes.Cause) {
	a, c := h.a, h.c
	ctx, cancel := context.WithTimeout(c.Ctx(), logLimit)
	defer cancel()
	var asked sync.WaitGroup
	defer asked.Wait()
	n := 0
	for _, cause := range causes {
		log := cause.Log
		if log == nil {
			continue
		}
		d, ok := a.State.Machines.Get(cause.Machine)
		switch n++; {
		case !ok || !auth.May(c.Who, auth.Action("logs"), aboutMachine(d.Value)):
			log.Fault = "the log was not asked for: you may not read the logs of the machine"
		case n > maxLogs:
			log.Fault = fmt.Sprintf("the log was not asked for: only the first %d hosts are asked; drover machines logs %s --unit %s", maxLogs, d.Value.Name, log.Unit)
		case a.AskAgent == nil:
			log.Fault = "the host cannot be asked: this server has no way to the hosts"
		default:
			a.Logger.Info("log of a host read", "user", c.Who.UserID, "token", c.Who.TokenName, "source", c.Source(), "machine", d.Key, "unit", log.Unit)
			asked.Go(func() {
				lines, err := h.of(ctx, d.Value, log.Unit)
				if log.Lines = lines; err != nil {
					log.Fault = "the host cannot be asked: " + err.Error()
				} else if len(lines) == 0 {
					log.Fault = "the unit has no log on the host: it does not exist there, or never wrote anything"
				}
			})
		}
	}
}

// of is the end of the log of a unit on a machine's host.
func (h hostLogs) of(ctx context.Context, m records.Machine, unit string) ([]string, error) {
	lines := []string{}
	answer, err := h.a.AskAgent(ctx, m.Subject(), "/v1/logs?"+url.Values{"unit": {unit}, "tail": {strconv.Itoa(views.CauseLines)}}.Encode())
	if err != nil {
		return lines, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return lines, agentRefusal(m, answer)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxLog)) // what came before an error is shown with it
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimRight(line, "\r\n"); line != noLog {
			lines = append(lines, strings.ToValidUTF8(line[:min(len(line), maxLogLine)], ""))
		}
	}
	return lines[max(0, len(lines)-views.CauseLines):], err
}

// noLog is what journalctl prints where there is nothing to print.
const noLog = "-- No entries --"
