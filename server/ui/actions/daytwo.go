// Snapshots of clusters, their restore, and rotations.

package actions

import (
	"net/http"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/ui"
)

// operation is an action that becomes an operation of a cluster, and is shown before.
func operation(name, title, about string, asked func(Subject, Given) apitypes.Asked, command func(Subject, Given) string) Action {
	return Action{
		Name: name, Title: title, About: about, Of: auth.Cluster, Preview: true, May: mayChange, Fits: drovers,
		Ask: func(s Subject, g Given) route.Asked {
			return send(http.MethodPost, s.at()+"/operations", asked(s, g))
		},
		Command: command, Next: begun,
	}
}

// begun is the page of the operation that was begun.
func begun(s Subject, reply route.Reply) string {
	var answer apitypes.Begun
	if reply.Decode(&answer) == nil && answer.Operation != nil {
		return ui.OperationURL(answer.Operation.ID)
	}
	return s.URL
}

// plain is what is asked for by its kind alone.
func plain(kind operations.Kind) func(Subject, Given) apitypes.Asked {
	return func(Subject, Given) apitypes.Asked { return apitypes.Asked{Kind: kind} }
}

func ofDayTwo() []Action {
	snapshot := operation("snapshot", "Take a snapshot", "A snapshot of etcd is taken on every host that has it, one after the other, and looked at whether it is whole.",
		func(_ Subject, g Given) apitypes.Asked {
			return apitypes.Asked{Kind: operations.KindSnapshot, Snapshot: g.Text("name")}
		},
		func(s Subject, g Given) string {
			return ui.ShellLine("drover snapshots create", []string{s.Name}, ui.ShellFlag("--name", g.Text("name")))
		})
	snapshot.Fields = func(Subject, Known) []Field {
		return []Field{{Name: "name", Label: "Name", Kind: "text", Hint: "may be left out; of k3s and RKE2 it is the begin of the name"}}
	}
	certificates := operation("rotate-certificates", "Rotate certificates", "Certificates are issued again and deployed host by host, also those that have ended.",
		plain(operations.KindRotateCertificates), command("clusters rotate certificates"))
	keys := operation("rotate-encryption-keys", "Rotate encryption keys", "Every Secret is encrypted with a new key; the old one goes when nothing is written with it any more.",
		plain(operations.KindRotateKeys), command("clusters rotate encryption-keys"))
	token := operation("rotate-server-token", "Rotate the server token", "The cluster gets another server token, and its servers restart one at a time. All servers have to work. Snapshots of before are restored with the token of then, which the server keeps.",
		plain(operations.KindRotateToken), command("clusters rotate server-token"))
	agents := operation("update-agents", "Update agents", "The agents on the cluster's hosts become those of the server's release: one first, and the others when it works. Nothing else restarts. A new agent that does not work is taken back by its host, and no further host gets it.",
		plain(operations.KindUpdateAgents), command("agents update"))
	onFleet := agents
	onFleet.Name, onFleet.Of, onFleet.Fits, onFleet.Advanced = "update-fleet-agents", auth.Fleet, nil, true
	onFleet.About = "The agents on the fleet's hosts become those of the server's release: one first, and a tenth at a time when it works. Plans and what they run stay as they are. A new agent that does not work is taken back by its host, and no further host gets it."
	token.Fits, agents.Fits = onHosts, onHosts
	ca := operation("rotate-ca", "Rotate CAs", "The cluster gets new CAs and certificates, host by host, so that at no time one does not trust another. Kubeconfigs that were copied off the hosts have to be renewed before the next rotation.",
		func(Subject, Given) apitypes.Asked {
			return apitypes.Asked{Kind: operations.KindRotateCertificates, CA: true}
		}, command("clusters rotate ca"))
	all := []Action{snapshot, restore(), rehearse(), rehearsals(), certificates, keys, token, ca, agents, onFleet}
	for i := 2; i < len(all); i++ {
		all[i].Advanced = true
	}
	return all
}

// restore brings a cluster back to a snapshot. Everything that will be done is shown before.
func restore() Action {
	d := operation("restore", "Restore a snapshot", "The cluster goes back to a snapshot, on the hosts that it has now; what was written to it since is gone. Everything is looked at before anything is changed, and the data of now stay on their hosts until the cluster works.",
		func(s Subject, g Given) apitypes.Asked {
			asked := apitypes.Asked{Kind: operations.KindRestore, Snapshot: g.Text("snapshot")}
			if s.Cluster.Distribution != apitypes.RKE1 {
				asked.Mode = g.Text("mode")
			}
			return asked
		},
		func(s Subject, g Given) string {
			return ui.ShellLine("drover snapshots restore", []string{s.Name, orWord(g.Text("snapshot"), "SNAPSHOT")}, "--yes", ui.ShellFlag("--mode", g.Text("mode")))
		})
	d.Dangerous = true
	d.Fields = func(s Subject, _ Known) []Field {
		fields := []Field{{Name: "snapshot", Label: "Snapshot", Kind: "choice", Required: true, Choices: append([]Choice{{"", "choose one"}}, snapshots(s)...)}}
		if s.Cluster.Distribution == apitypes.RKE1 {
			return fields
		}
		return append(fields, Field{Name: "mode", Label: "What becomes as it was", Kind: "choice", Choices: []Choice{
			{"", "the data"}, {"kubernetesVersion", "the data and the Kubernetes version"}, {"all", "the data and the whole configuration"},
		}})
	}
	return d
}

func rehearse() Action {
	d := operation("rehearse", "Rehearse a snapshot", "A machine of a fleet, which the cluster does not have, restores the snapshot, counts what is in it, and is left clean. The cluster is not touched.",
		func(_ Subject, g Given) apitypes.Asked {
			return apitypes.Asked{Kind: operations.KindRehearse, Snapshot: g.Text("snapshot"), Fleet: g.Text("fleet")}
		},
		func(s Subject, g Given) string {
			return ui.ShellLine("drover snapshots rehearse", []string{s.Name, orWord(g.Text("snapshot"), "SNAPSHOT")}, ui.ShellFlag("--fleet", orWord(g.Text("fleet"), "FLEET")))
		})
	d.Fits = func(s Subject) bool { return onHosts(s) && s.Cluster.Distribution == "k3s" }
	d.Fields = func(s Subject, k Known) []Field {
		return []Field{
			{Name: "snapshot", Label: "Snapshot", Kind: "choice", Required: true, Choices: append([]Choice{{"", "choose one"}}, snapshots(s)...)},
			{Name: "fleet", Label: "Fleet with a machine for it", Kind: "text", Required: true, Known: fleets(k)},
		}
	}
	return d
}

// rehearsals sets how often the newest snapshot is rehearsed.
func rehearsals() Action {
	return Action{
		Name: "rehearsals", Title: "Rehearse again and again", Of: auth.Cluster, Done: "The schedule of rehearsals is set.",
		About: "The newest snapshot is rehearsed by itself, on a machine of a fleet that is idle. The time counts from the end of the last rehearsal. Without a time none begins by itself.",
		May: func(who auth.Identity, s Subject) bool {
			return mayChange(who, s) && auth.May(who, auth.Update, auth.Object{Kind: auth.Fleet})
		},
		Fits: func(s Subject) bool { return onHosts(s) && s.Cluster.Distribution == "k3s" },
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
