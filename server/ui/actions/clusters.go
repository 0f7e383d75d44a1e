// What is done to clusters.

package actions

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/ui"
)

// at is where drover's own API has the cluster.
func (s Subject) at() string {
	if s.Kind == auth.Fleet {
		return "/v1-drover/fleets/" + url.PathEscape(s.Key)
	}
	namespace, name, _ := strings.Cut(s.Key, "/")
	return "/v1-drover/clusters/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

// mayChange is for those who may change the cluster.
func mayChange(who auth.Identity, s Subject) bool { return s.may(who, auth.Update) }

// drovers says that the server provisions the cluster, and does now.
func drovers(s Subject) bool {
	return s.Cluster.Exported == nil && s.Cluster.Deleting.IsZero() && slices.Contains([]string{"k3s", "rke2", apitypes.RKE1}, s.Cluster.Distribution)
}

// onHosts says the same of one of k3s or RKE2.
func onHosts(s Subject) bool { return drovers(s) && s.Cluster.Distribution != apitypes.RKE1 }

func paused(s Subject) bool { return s.Cluster.Paused }

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
		{
			Name: "pause", Title: "Pause", Of: auth.Cluster, Pauses: true, Done: "The cluster is paused: nothing new begins on its machines.",
			About:   "Nothing new begins on the machines of the cluster until it is resumed. What has begun is finished first.",
			May:     mayChange,
			Fits:    func(s Subject) bool { return drovers(s) && !paused(s) },
			Ask:     func(s Subject, _ Given) route.Asked { return post(s.at() + "/pause") },
			Command: command("clusters pause"),
		},
		{
			Name: "resume", Title: "Resume", Of: auth.Cluster, Pauses: true, Done: "The cluster goes on.",
			About:   "The server goes on with what is to be done on the machines of the cluster.",
			May:     mayChange,
			Fits:    func(s Subject) bool { return drovers(s) && paused(s) },
			Ask:     func(s Subject, _ Given) route.Asked { return post(s.at() + "/resume") },
			Command: command("clusters resume"),
		},
		upgrade(),
		{
			Name: "window", Title: "Maintenance window", Of: auth.Cluster, Advanced: true, Done: "The maintenance window is set.",
			About: "When machines of the cluster may be restarted and drained. What is asked for at other times waits.",
			May:   mayChange, Fits: onHosts,
			Fields: func(Subject, Known) []Field {
				return []Field{{Name: "window", Label: "Window", Kind: "text", Hint: "such as Sat 22:00-04:00 Europe/Berlin; empty for none"}}
			},
			Ask: func(s Subject, g Given) route.Asked {
				return send(http.MethodPost, s.at()+"/window/set", apitypes.AskedWindow{Window: g.Text("window")})
			},
			Command: func(s Subject, g Given) string {
				if g.Text("window") == "" {
					return ui.ShellLine("drover clusters window", []string{s.Name}, "--clear")
				}
				return ui.ShellLine("drover clusters window", []string{s.Name}, ui.ShellFlag("--set", g.Text("window")))
			},
		},
		{
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

// upgrade takes a cluster to another version, after a look at all that may be in the way.
func upgrade() Action {
	return Action{
		Name: "upgrade", Title: "Upgrade", Of: auth.Cluster, Preview: true,
		About: "The cluster gets another version of Kubernetes, machine by machine. Before anything changes the server looks at everything that may be in the way.",
		May:   mayChange, Fits: drovers,
		Fields: func(s Subject, k Known) []Field {
			running := ui.ShownVersion(s.Cluster.Cluster)
			to := Field{Name: "version", Label: "To version", Kind: "choice", Required: true, Choices: []Choice{{"", "choose one"}}}
			for _, v := range k.Versions().Data {
				if v.Version == running {
					for _, next := range v.Upgrades {
						to.Choices = append(to.Choices, Choice{next, next})
					}
				}
			}
			if len(to.Choices) == 1 { // of a version that the data do not know
				to.Kind, to.Choices = "text", nil
			}
			return []Field{to,
				{Name: "no-snapshot", Label: "Begin without a snapshot of etcd", Kind: "tick"},
				{Name: "now", Label: "Do not wait for the maintenance window", Kind: "tick"},
			}
		},
		Ask: func(s Subject, g Given) route.Asked {
			q := url.Values{}
			for field, name := range map[string]string{"no-snapshot": "noSnapshot", "now": "now"} {
				if g.On(field) {
					q.Set(name, "true")
				}
			}
			return send(http.MethodPost, s.at()+"/upgrade?"+q.Encode(), apitypes.AskedUpgrade{Version: g.Text("version")})
		},
		Command: func(s Subject, g Given) string {
			return ui.ShellLine("drover clusters upgrade", []string{s.Name}, ui.ShellFlag("--to", orWord(g.Text("version"), "VERSION")), g.flag("no-snapshot"), g.flag("now"))
		},
		Next: func(s Subject, reply route.Reply) string {
			var answer apitypes.Upgrade
			if reply.Decode(&answer) == nil && answer.Result != nil && answer.Result.Operation != "" {
				return ui.OperationURL(answer.Result.Operation)
			}
			return s.URL
		},
	}
}

// orWord is a word of a command, or what stands for one that was not given yet.
func orWord(given, instead string) string {
	if given == "" {
		return instead
	}
	return given
}
