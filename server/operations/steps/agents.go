// The update of agents: one machine first, and the others in waves. An agent that does not work is taken back by its own host, and no
// other machine gets it then.

package steps

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/installers/hostjob"
)

// Agent is the program that agents are replaced by.
type Agent struct {
	// Release is its version.
	Release string `json:"release"`
	// From is its URL without "-" and the architecture, SHA256 are its checksums by architecture, and CA are the authorities of the URL as PEM, empty for
	// those of each host.
	From   string            `json:"from"`
	SHA256 map[string]string `json:"sha256"`
	CA     string            `json:"ca,omitempty"`
}

var (
	canary = Step{
		Name: "canary", Title: "update the agent of %s, which is the first", Needs: Needs{Unpaused: true}, OnFailure: OnFailure{Tries: 1, Advice: keptAgent}, Job: updatingAgent, Done: Done{Read: agentUpdated},
	}
	agent = Step{
		Name: "agent", Title: "update the agent of %s", Needs: Needs{Turn: Concurrent, Skip: true, Unpaused: true}, OnFailure: OnFailure{Tries: 1, Advice: keptAgent}, Job: updatingAgent,
		Done: Done{Read: agentUpdated},
	}
)

// keptAgent is what is so after an update that failed.
const keptAgent = "; the agent of before runs on that host, and the machines that were not reached have theirs"

func updatingAgent(d *decider, id string, m Machine) (Job, error) {
	if d.request.Agent == nil {
		return Job{}, fmt.Errorf("which agent it is to get is not said")
	}
	to := d.request.Agent
	return just(m.Host.UpdateAgent(id, to.From, to.CA, to.SHA256))
}

func agentUpdated(_ *decider, m Machine) (string, error) { return hostjob.Updated(m.Output), nil }

// updateAgents are the steps of an update: a worker that works is the first where there is one, and servers come last.
func (p planning) updateAgents() ([]on, error) {
	named := func(all []Machine) []Machine {
		return slices.DeleteFunc(all, func(m Machine) bool { return !slices.Contains(p.request.Machines, m.Name) })
	}
	all := named(slices.Concat(p.workers(), p.servers()))
	if len(all) > MaxMachines {
		return nil, fmt.Errorf("%d machines are named, and an operation of this kind takes %d at most", len(all), MaxMachines)
	}
	first := max(0, slices.IndexFunc(all, func(m Machine) bool { return m.Connected && m.Works }))
	if len(all) == 0 {
		return nil, nil
	}
	return append(each(canary, all[first]), each(agent, slices.Delete(slices.Clone(all), first, first+1)...)...), nil
}
