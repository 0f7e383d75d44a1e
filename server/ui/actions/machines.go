// What is done to machines, and how fleets are made.

package actions

import (
	"net/http"
	"net/url"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/ui"
)

// node is an action on the machine's node, which the API of its cluster is asked for.
func node(action, title, about, done string) Action {
	return Action{
		Name: action, Title: title, About: about, Done: done, Of: auth.Machine,
		May:  func(who auth.Identity, s Subject) bool { return s.may(who, auth.Action(action)) },
		Fits: func(s Subject) bool { return s.Machine.Node != nil && s.Machine.Deleting.IsZero() },
		Ask: func(s Subject, _ Given) route.Asked {
			return post("/v3/nodes/" + url.PathEscape(s.ID) + "?action=" + action)
		},
		Command: func(s Subject, _ Given) string { return ui.ShellLine("kubectl "+action, []string{s.Machine.Node.Name}) },
	}
}

func ofMachines() []Action {
	drain := node("drain", "Drain", "Pods leave the node, as their disruption budgets allow, and no new ones come. Data in emptyDir volumes are lost, and pods without an owner stay in the way.", "The node is being drained.")
	drain.Ask = func(s Subject, _ Given) route.Asked {
		return send(http.MethodPost, "/v3/nodes/"+url.PathEscape(s.ID)+"?action=drain", map[string]any{"deleteLocalData": true, "ignoreDaemonSets": true})
	}
	drain.Command = func(s Subject, _ Given) string {
		return ui.ShellLine("kubectl drain", []string{s.Machine.Node.Name}, "--ignore-daemonsets", "--delete-emptydir-data")
	}
	return []Action{
		node("cordon", "Cordon", "No new pods are put on the node; those that are there stay.", "No new pods are put on the node."),
		node("uncordon", "Uncordon", "Pods may be put on the node again.", "Pods may be put on the node again."),
		drain,
	}
}

func ofFleets() []Action {
	return []Action{
		{
			Name: "join-fleet", Title: "Join a host", Makes: auth.Fleet,
			About: "A fleet is machines without a cluster, to which people give plans of their own. One that does not exist is made.",
			May: func(who auth.Identity, _ Subject) bool {
				return auth.May(who, auth.Create, auth.Object{Kind: auth.Fleet})
			},
			Fields: func(Subject, Known) []Field {
				return []Field{{Name: "name", Label: "Name of the fleet", Kind: "text", Required: true}}
			},
			Ask: func(_ Subject, g Given) route.Asked {
				return post("/v1-drover/fleets/" + url.PathEscape(g.Text("name")) + "/join")
			},
			Command: func(_ Subject, g Given) string {
				return ui.ShellLine("drover fleets join-command", []string{orWord(g.Text("name"), "NAME")})
			},
			Shows: func(_ Subject, reply route.Reply) (Shown, error) {
				var j apitypes.Join
				err := reply.Decode(&j)
				return Shown{Title: "Run this as root on the host. It has the registration token, which lets hosts join.", Text: j.Command + j.Problem}, err
			},
		},
	}
}
