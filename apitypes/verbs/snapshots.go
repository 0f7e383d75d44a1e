package verbs

import (
	"fmt"
	"net/url"

	"github.com/drover-project/drover/apitypes"
)

func ofSnapshots() []Verb { return []Verb{snapshot(), restore(), rehearse()} }

func snapshot() Verb {
	return begins(Verb{
		Name: "snapshot",
		Page: Page{
			Title: "Take a snapshot",
			About: "A snapshot of etcd is taken on every host that has it, one after the other, and looked at whether it is whole.",
		},
		Command: Command{
			Line: "snapshots create CLUSTER", Short: "Take a snapshot of a cluster's etcd on every host that has it",
			Long: `Take a snapshot of a cluster's etcd on every host that has it. Of k3s and RKE2 it is taken on one after the other, and
each host looks whether it is whole.`,
		},
		Inputs: []Input{
			{
				Name: "snapshot", Flag: "name", Label: "Name", Hint: "may be left out; of k3s and RKE2 it is the begin of the name",
				Help: "name of the snapshot (default: the cluster's ID, a random text and the time); of k3s and RKE2 the beginning of its name (default: on-demand)",
			},
			{Name: "machines", Kind: Machines, Flag: "machine", Help: "only on the host of this machine, of k3s and RKE2 (repeat)"},
		},
	}, apitypes.Asked{Kind: apitypes.KindSnapshot})
}

func restore() Verb {
	return begins(Verb{
		Name: "restore",
		Page: Page{
			Title: "Restore a snapshot",
			About: "The cluster goes back to a snapshot, on the hosts that it has now; what was written to it since is gone. Everything is looked at before anything is changed, and the data of now stay on their hosts until the cluster works.",
		},
		Command: Command{
			Line: "snapshots restore CLUSTER SNAPSHOT", Short: "Bring a cluster back to a snapshot, on the hosts that it has now",
			Long: `Bring a cluster back to a snapshot, on the hosts that it has now. Everything is looked at before anything is changed, and the
data of now stay on their hosts until the cluster works on the others. Hosts that are lost are removed first, with drover machines rm NAME --force.

Of k3s and RKE2 SNAPSHOT is a name that ` + "`drover snapshots ls`" + ` shows, or the path of a file on the host of a machine, with --machine.
All servers stop, that machine begins the cluster anew, and the others join it one after the other. If all servers are
lost, register new hosts, copy the file to one of them, and restore it there.`,
			Example: "  drover snapshots restore harbour on-demand-pier-1-1763850000 --yes --wait\n  drover snapshots restore harbour /root/snapshot --machine pier-4 --yes",
		},
		Confirm: func(o Object, given url.Values) string {
			return fmt.Sprintf("%s would go back to snapshot %s, and what was written to it since would be gone; say --yes to do it, or --dry-run to see how", o, given.Get("snapshot"))
		},
		Inputs: []Input{
			{Name: "snapshot", Kind: Snapshot, Argument: true, Required: true, Label: "Snapshot"},
			{Name: "machines", Kind: Machines, Flag: "machine", Help: "the machine on whose host the snapshot is, of k3s and RKE2"},
			{
				Name: "mode", Label: "What becomes as it was", Fits: OnPlans,
				Choices: [][2]string{{"", "the data"}, {"kubernetesVersion", "the data and the Kubernetes version"}, {"all", "the data and the whole configuration"}},
				Help:    "what becomes as it was too, of k3s and RKE2: none, kubernetesVersion, or all, which is the version and the settings (default: none)",
			},
			{Name: "replace", Query: true, Kind: Tick, Help: "end a change that is under way in favour of it, of k3s and RKE2"},
			noSnapshot,
			{Name: "keepState", Kind: Tick, Flag: "keep-state", Help: "keep the certificates and keys that the server has, and do not take those in the snapshot"},
		},
	}, apitypes.Asked{Kind: apitypes.KindRestore})
}

// Rehearsable says that snapshots of the cluster can be rehearsed.
func Rehearsable(o Object) bool { return OnPlans(o) && o.Cluster.Distribution == "k3s" }

func rehearse() Verb {
	return begins(Verb{
		Name: "rehearse", Fits: Rehearsable,
		Page: Page{
			Title: "Rehearse a snapshot",
			About: "A machine of a fleet, which the cluster does not have, restores the snapshot, counts what is in it, and is left clean. The cluster is not touched.",
		},
		Command: Command{Line: "snapshots rehearse CLUSTER SNAPSHOT", Own: true},
		Inputs: []Input{
			{Name: "snapshot", Kind: Snapshot, Argument: true, Required: true, Label: "Snapshot"},
			{Name: "fleet", Kind: FleetName, Required: true, Label: "Fleet with a machine for it"},
		},
	}, apitypes.Asked{Kind: apitypes.KindRehearse})
}
