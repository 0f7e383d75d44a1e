package verbs

import (
	"fmt"
	"strings"

	"github.com/drover-project/drover/apitypes"
)

func ofAgents() []Verb {
	update, pin, unpin := updateAgents(), pinned("pin", true), pinned("unpin", false)
	pin.Summary = `Have the agents on a cluster's hosts stay of the releases that they are of, or end that. The body is {"pinned"}`
	pin.Command.Short, unpin.Command.Short = "Have the agents on the hosts of a cluster or a fleet stay of the releases that they are of", "Let the agents on the hosts of a cluster or a fleet be updated again"
	pin.Page.About, pin.Page.Done = "The agents on these hosts stay of the releases that they are of; the server does not update them.", "The agents are pinned."
	unpin.Page.About, unpin.Page.Done = "The agents on these hosts are updated to the server's release again.", "The agents are no longer pinned."
	return []Verb{update, onFleet(update), pin, onFleet(pin), unpin, onFleet(unpin)}
}

func updateAgents() Verb {
	return begins(Verb{
		Name: "update-agents", Fits: OnPlans,
		Page: Page{
			Title: "Update agents", Advanced: true,
			About: "The agents on the cluster's hosts become those of the server's release: one first, and the others when it works. Nothing else restarts. A new agent that does not work is taken back by its host, and no further host gets it.",
		},
		Command: Command{
			Line: "agents update NAME", Short: "Update the agents on the hosts of a cluster or a fleet to the server's release, one first and the others in waves",
			Long: `Update the agents on the hosts of a cluster or a fleet to the server's release: all whose release is another one. One is the first; when it
works, as many follow at a time as workers of the cluster may be away in an upgrade, and a tenth of a fleet. Nothing restarts but the agents, and
what they carry out goes on. A new agent that does not work is taken back by its own host, and no further machine gets it; drover operations
retry goes on. A machine of a fleet keeps the files and probes of the plan that it has, whose instructions are not carried out again.`,
			Example: "  drover agents update harbour --wait\n  drover agents update harbour --machine pier-4",
		},
		Inputs: []Input{{Name: "machines", Kind: Machines, Flag: "machine", Help: "only the agent of this machine, also of the same release or pinned (repeat)"}},
	}, apitypes.Asked{Kind: apitypes.KindUpdateAgents})
}

// pinned has agents stay as they are, or ends that.
func pinned(word string, pinned bool) Verb {
	return Verb{
		Name: word + "-agents", Of: Cluster, Path: "agents/pin", Right: "update", Body: apitypes.AskedPin{Pinned: pinned}, Answer: apitypes.AskedPin{},
		Fits: func(o Object) bool {
			return OnPlans(o) && (o.Cluster.Annotations[apitypes.PinAgents] == "true") != pinned
		},
		Page: Page{Title: strings.ToUpper(word[:1]) + word[1:] + " agents", Advanced: true},
		Command: Command{
			Line: "agents " + word + " NAME", Failed: word + " the agents of NAME",
			Report: reported(func(o Object, _ apitypes.AskedPin) []string {
				return []string{fmt.Sprintf("the agents of %s are %sned", o, word)}
			}),
		},
	}
}

// onFleet is the same verb for a fleet. Both pins are offered, as the API does not say whether the agents of a fleet are pinned.
func onFleet(v Verb) Verb {
	v.Of, v.Fits = Fleet, nil
	v.Name = strings.Replace(v.Name, "-agents", "-fleet-agents", 1)
	v.Summary = strings.Replace(v.Summary, "a cluster's", "a fleet's", 1)
	if v.Begins {
		v.Page.About = "The agents on the fleet's hosts become those of the server's release: one first, and a tenth at a time when it works. Plans and what they run stay as they are. A new agent that does not work is taken back by its host, and no further host gets it."
	}
	return v
}
