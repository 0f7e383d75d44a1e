package verbs

import (
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
)

// Provisioned says that the server provisions the cluster, and does now.
func Provisioned(o Object) bool {
	return o.Cluster.Exported == nil && o.Cluster.Deleting.IsZero() && slices.Contains([]string{"k3s", "rke2", apitypes.RKE1}, o.Cluster.Distribution)
}

// OnPlans says the same of a cluster of k3s or RKE2, whose machines get plans.
func OnPlans(o Object) bool { return Provisioned(o) && o.Cluster.Distribution != apitypes.RKE1 }

// begins is a verb that begins an operation on a cluster.
func begins(v Verb, asked apitypes.Asked) Verb {
	v.Of, v.Path, v.Right, v.Begins, v.Body = Cluster, "operations", "update", true, asked
	v.Command.Failed = strings.ReplaceAll(string(asked.Kind), "-", " ") // the server names the cluster
	if v.Fits == nil {
		v.Fits = Provisioned
	}
	return v
}

// noSnapshot is of what else begins with a snapshot.
var noSnapshot = Input{Name: "noSnapshot", Query: true, Kind: Tick, Flag: "no-snapshot", Help: "begin without a snapshot of what the cluster is now, of k3s and RKE2"}

func ofClusters() []Verb {
	return append([]Verb{upgrade(), pause(), resume(), window()}, withoutForms()...)
}

func upgrade() Verb {
	return Verb{
		Name: "upgrade", Of: Cluster, Path: "upgrade", Right: "update", Fits: Provisioned, Body: apitypes.AskedUpgrade{}, Answer: apitypes.Upgrade{},
		Summary: `Take a cluster to another Kubernetes version: 422 with what is in the way under findings. The body is {"version", "accept"}`,
		Page: Page{
			Title: "Upgrade", Preview: true,
			About: "The cluster gets another version of Kubernetes, machine by machine. Before anything changes the server looks at everything that may be in the way.",
		},
		Command: Command{Line: "clusters upgrade NAME", Own: true},
		Inputs: []Input{
			{Name: "version", Kind: Version, Flag: "to", Required: true, Label: "To version"},
			{Name: "dryRun", Query: true, Kind: Tick, Help: "true changes nothing and shows what would change"},
			{Name: "noSnapshot", Query: true, Kind: Tick, Flag: "no-snapshot", Label: "Begin without a snapshot of etcd", Help: "true begins without a snapshot of etcd"},
			{Name: "now", Query: true, Kind: Tick, Label: "Do not wait for the maintenance window", Help: "true does not wait for the maintenance window"},
			{Name: "queue", Query: true, Kind: Tick, Help: "true waits while another operation is under way"},
			{Name: "replace", Query: true, Kind: Tick, Help: "true ends a change that is under way"},
		},
	}
}

func pause() Verb {
	return Verb{
		Name: "pause", Of: Cluster, Path: "pause", Right: "update", Summary: "Begin nothing new on a cluster's machines", Answer: apitypes.Paused{},
		Fits: func(o Object) bool { return Provisioned(o) && !o.Cluster.Paused },
		Page: Page{
			Title: "Pause", Done: "The cluster is paused: nothing new begins on its machines.", Pauses: true,
			About: "Nothing new begins on the machines of the cluster until it is resumed. What has begun is finished first.",
		},
		Command: Command{
			Line: "clusters pause NAME", Short: "Begin nothing new on a cluster's machines; what has begun is finished", Failed: "pause NAME",
			Report: reported(func(o Object, p apitypes.Paused) []string {
				lines := []string{o.String() + " is paused"}
				if len(p.Finishing) > 0 {
					lines = append(lines, "what has begun is finished first on "+strings.Join(p.Finishing, ", "))
				}
				return lines
			}),
		},
	}
}

func resume() Verb {
	return Verb{
		Name: "resume", Of: Cluster, Path: "resume", Right: "update", Answer: apitypes.Resumed{},
		Summary: "End a pause, or take up a cluster that was exported or imported: 409 with the list in changes when something would change on its hosts, or when the cluster was changed elsewhere",
		Fits:    func(o Object) bool { return Provisioned(o) && o.Cluster.Paused },
		Page: Page{
			Title: "Resume", Done: "The cluster goes on.", Pauses: true,
			About: "The server goes on with what is to be done on the machines of the cluster.",
		},
		Command: Command{Line: "clusters resume NAME", Own: true},
		Inputs: []Input{
			{Name: "dryRun", Query: true, Kind: Tick, Help: "true says what would change and stores nothing"},
			{Name: "accept", Query: true, Kind: Tick, Help: "true takes the cluster up though something changes"},
			{Name: "force", Query: true, Kind: Tick, Help: "true takes it up with the stored state, even against the cluster's own"},
		},
	}
}

func window() Verb {
	return Verb{
		Name: "window", Of: Cluster, Path: "window/set", Right: "update", Fits: OnPlans, Body: apitypes.AskedWindow{}, Answer: apitypes.Window{},
		Summary: `Give a cluster another maintenance window, or take it off with an empty text. The body is {"window"}`,
		Page: Page{
			Title: "Maintenance window", Done: "The maintenance window is set.", Advanced: true,
			About: "When machines of the cluster may be restarted and drained. What is asked for at other times waits.",
		},
		Command: Command{Line: "clusters window NAME", Own: true},
		Inputs:  []Input{{Name: "window", Flag: "set", Empty: "clear", Label: "Window", Hint: "such as Sat 22:00-04:00 Europe/Berlin; empty for none"}},
	}
}

func ofRotations() []Verb {
	return []Verb{
		begins(Verb{
			Name: "rotate-certificates",
			Page: Page{Title: "Rotate certificates", Advanced: true, About: "Certificates are issued again and deployed host by host, also those that have ended."},
			Command: Command{
				Line: "clusters rotate certificates NAME", Short: "Issue certificates again and deploy them host by host, also when they have ended",
			},
			Inputs: []Input{
				{Name: "ca", Kind: Tick, Help: "the CAs, too, as drover clusters rotate ca does"},
				{Name: "services", Kind: Texts, Flag: "service", Help: "only the certificates of this service (repeat)"},
			},
		}, apitypes.Asked{Kind: apitypes.KindRotateCertificates}),
		begins(Verb{
			Name: "rotate-encryption-keys",
			Page: Page{
				Title: "Rotate encryption keys", Advanced: true,
				About: "Every Secret is encrypted with a new key; the old one goes when nothing is written with it any more.",
			},
			Command: Command{
				Line: "clusters rotate encryption-keys NAME", Short: "Encrypt every Secret with a new key; the old one goes when nothing is written with it any more",
			},
		}, apitypes.Asked{Kind: apitypes.KindRotateKeys}),
		begins(Verb{
			Name: "rotate-server-token", Fits: OnPlans,
			Page: Page{
				Title: "Rotate the server token", Advanced: true,
				About: "The cluster gets another server token, and its servers restart one at a time. All servers have to work. Snapshots of before are restored with the token of then, which the server keeps.",
			},
			Command: Command{
				Line: "clusters rotate server-token NAME", Short: "Give a cluster of k3s or RKE2 another server token, and restart its servers one at a time",
				Long: `Give a cluster of k3s or RKE2 another server token, and restart its servers one at a time. That is the token with which servers
join, and by which what etcd and its snapshots hold of the cluster's certificates and keys is read. All servers have to work. Workers
have another token, which stays. Snapshots of before are restored with the token of then, which the server keeps.`,
			},
		}, apitypes.Asked{Kind: apitypes.KindRotateToken}),
		begins(Verb{
			Name: "rotate-ca", Inputs: []Input{noSnapshot},
			Page: Page{
				Title: "Rotate CAs", Advanced: true,
				About: "The cluster gets new CAs and certificates, host by host, so that at no time one does not trust another. Kubeconfigs that were copied off the hosts have to be renewed before the next rotation.",
			},
			Command: Command{
				Line: "clusters rotate ca NAME", Short: "Give a cluster new CAs and certificates, host by host, so that at no time one does not trust another",
				Long: `Give a cluster new CAs and certificates, host by host, so that at no time one does not trust another. Of k3s and RKE2 one server
makes the new CAs, signed by those of now too, has etcd take them, and all servers and then the workers restart. All servers have to
work. The old CAs count until the next rotation, so that kubeconfigs that were copied off the hosts have to be renewed before it.`,
			},
		}, apitypes.Asked{Kind: apitypes.KindRotateCertificates, CA: true}),
	}
}

// withoutForms are what is done by commands and by programs alone.
func withoutForms() []Verb {
	own := func(line string) Command { return Command{Line: line, Own: true} }
	return []Verb{
		{Name: "export", Of: Cluster, Path: "export", Right: "action export", Body: apitypes.ExportRequest{}, Command: own("clusters export NAME")},
		{
			Name: "rehearsals", Of: Cluster, Path: "rehearsals/set", Right: "update", Body: apitypes.AskedRehearsals{}, Answer: apitypes.Rehearsals{}, Command: own("clusters rehearsals NAME"),
			Summary: `Have snapshots of a cluster rehearsed on a fleet by themselves, or not with an empty every. The body is {"every", "fleet"}`,
		},
		{
			Name: "forget-agent", Of: Cluster, Path: "agent/forget", Right: "update", Answer: apitypes.Join{}, Command: own("clusters import NAME"),
			Summary: "Believe the next agent that comes with the token of an imported cluster, from any Kubernetes; the tunnels of the one before end",
		},
		{
			Name: "reveal-tokens", Of: Cluster, Path: "token", Right: "action token", Answer: apitypes.JoinTokens{}, Command: own("clusters token NAME"),
			Summary: "Reveal the cluster's join tokens; that is logged",
		},
		{
			Name: "add-token", Of: Cluster, Path: "token/add", Right: "action token", Body: apitypes.AskedToken{}, Answer: apitypes.BroughtToken{}, Command: own("clusters token NAME"),
			Summary: "Bring a server token that the cluster had under another server, by which snapshots of then are restored; that is logged",
		},
	}
}
