// What is done to clusters.

package actions

import (
	"net/http"
	"net/url"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/apitypes/verbs"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/ui"
)

// mayChange is for those who may change the cluster.
func mayChange(who auth.Identity, s Subject) bool { return s.may(who, auth.Update) }

// command is a drover command on a cluster.
func command(words string) func(Subject, Given) string {
	return func(s Subject, _ Given) string { return ui.ShellLine("drover "+words, []string{s.Name}) }
}

func ofClusters() []Action {
	return []Action{
		{
			Name: "kubeconfig", Title: "Kubeconfig", Of: auth.Cluster,
			About: "A file by which kubectl reaches the cluster with your rights. It has a token of yours in it; drover tokens ls lists it, and to end it ends the way in.",
			May:   func(who auth.Identity, s Subject) bool { return s.may(who, auth.Action("generateKubeconfig")) },
			Ask: func(s Subject, _ Given) route.Asked {
				return post("/v3/clusters/" + url.PathEscape(s.ID) + "?action=generateKubeconfig")
			},
			Command: command("clusters kubeconfig"),
			Shows:   kubeconfig, File: true,
		},
	}
}

func kubeconfig(s Subject, reply route.Reply) (Shown, error) {
	var made struct {
		Config string `json:"config"`
	}
	err := reply.Decode(&made)
	return Shown{Title: "The kubeconfig", Text: made.Config, File: s.Name + ".yaml"}, err
}

// orWord is a word of a command, or what stands for one that was not given yet.
func orWord(given, instead string) string {
	if given == "" {
		return instead
	}
	return given
}

func removeCluster() Action {
	return Action{
		Name: "remove-cluster", Title: "Remove the cluster", Of: auth.Cluster, Dangerous: true, Advanced: true, Done: "The cluster is being removed.",
		About: "The server forgets the cluster with its machines, tokens and operations, and with the join tokens that its snapshots are encrypted by. What runs on the hosts stays, unless they are to be left clean. An imported cluster runs on without the server.",
		May:   func(who auth.Identity, s Subject) bool { return s.may(who, auth.Remove) },
		Fits:  func(s Subject) bool { return s.Cluster.Deleting.IsZero() },
		Fields: func(Subject, Known) []Field {
			return []Field{{Name: "uninstall", Label: "Leave the hosts clean: Kubernetes and all its data are removed from them", Kind: "tick"}}
		},
		Ask: func(s Subject, g Given) route.Asked {
			target := "/v3/clusters/" + url.PathEscape(s.ID)
			if g.On("uninstall") {
				target += "?uninstall=true"
			}
			return route.Asked{Method: http.MethodDelete, Target: target}
		},
		Next: func(Subject, route.Reply) string { return ui.Home + "clusters" }, // its own page is gone any moment
		Command: func(s Subject, g Given) string {
			return ui.ShellLine("drover clusters rm", []string{s.Name}, "--yes", g.flag("uninstall"))
		},
	}
}

// begun is the page of the operation that was begun, by itself or with what became of the document.
func begun(s Subject, reply route.Reply) string {
	var answer struct {
		Operation *apitypes.OperationSummary `json:"operation"`
		Result    *apitypes.ApplyResult      `json:"result"`
	}
	switch err := reply.Decode(&answer); {
	case err == nil && answer.Operation != nil:
		return ui.OperationURL(answer.Operation.ID)
	case err == nil && answer.Result != nil && answer.Result.Operation != "":
		return ui.OperationURL(answer.Result.Operation)
	}
	return s.URL
}

// rehearsals sets how often the newest snapshot is rehearsed.
func rehearsals() Action {
	return Action{
		Name: "rehearsals", Title: "Rehearse again and again", Of: auth.Cluster, Done: "The schedule of rehearsals is set.",
		About: "The newest snapshot is rehearsed by itself, on a machine of a fleet that is idle. The time counts from the end of the last rehearsal. Without a time none begins by itself.",
		May: func(who auth.Identity, s Subject) bool {
			return mayChange(who, s) && auth.May(who, auth.Update, auth.Object{Kind: auth.Fleet})
		},
		Fits: func(s Subject) bool { return verbs.Rehearsable(s.object()) },
		Fields: func(s Subject, k Known) []Field {
			return []Field{
				{Name: "every", Label: "Time from the end of one to the next", Kind: "text", Value: s.Cluster.Rehearsals.Every, Hint: "such as 24h; empty for never"},
				{Name: "fleet", Label: "Fleet with a machine for it", Kind: "text", Value: s.Cluster.Rehearsals.Fleet, Known: fleets(k)},
			}
		},
		Ask: func(s Subject, g Given) route.Asked {
			asked := apitypes.AskedRehearsals{Every: g.Text("every"), Fleet: g.Text("fleet")}
			if asked.Every == "" { // the fleet is that of the schedule that ends
				asked.Fleet = ""
			}
			return send(http.MethodPost, s.at()+"/rehearsals/set", asked)
		},
		Command: func(s Subject, g Given) string {
			if g.Text("every") == "" {
				return ui.ShellLine("drover clusters rehearsals", []string{s.Name}, "--off")
			}
			return ui.ShellLine("drover clusters rehearsals", []string{s.Name}, ui.ShellFlag("--every", g.Text("every")), ui.ShellFlag("--fleet", orWord(g.Text("fleet"), "FLEET")))
		},
	}
}

// fleets are those that the caller may see.
func fleets(k Known) []Choice {
	return known(k.Fleets(k.Who), func(f apitypes.Fleet) Choice { return Choice{f.Name, f.Name} })
}

// snapshots are those that the cluster can go back to.
func snapshots(s Subject) []Choice {
	var all []Choice
	for _, one := range s.Cluster.Snapshots {
		if one.Restorable {
			all = append(all, Choice{one.Name, one.Name + ", " + one.Created.UTC().Format("2006-01-02 15:04:05") + " UTC"})
		}
	}
	return all
}
