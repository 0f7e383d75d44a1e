package change

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
)

// FoundingError is that etcd of a cluster that never worked was begun with members that cannot found it together with the hosts of
// the config.
type FoundingError struct {
	// Began has what the etcd of each host was begun with, as its flag --initial-cluster says it, by the host's address.
	Began map[string]string
}

func (e *FoundingError) Error() string {
	var began []string
	for _, address := range sorted(e.Began) {
		began = append(began, address+" ("+e.Began[address]+")")
	}
	return "etcd was begun by earlier runs, which did not come to their end, with hosts that the config does not have, or apart from each other: " +
		strings.Join(began, ", ") + "; put those hosts back into the config; or, as this cluster never worked, remove the container etcd " +
		"(docker rm -f etcd) and what is in /var/lib/etcd on these hosts, and run again"
}

// AwayError is that hosts cannot be reached on which an earlier run may have begun etcd.
type AwayError struct{ Hosts []string }

func (e *AwayError) Error() string {
	return "host(s) " + strings.Join(e.Hosts, ", ") + " cannot be reached, and an earlier run, which did not come to its end, may have begun etcd there, " +
		"which only the host knows: founded without it, etcd would be two clusters; bring the host back, or take it out of the config for good"
}

// Founders are the addresses of the nodes with which etcd of a new cluster is founded; the others join it. An interrupted run
// may have begun with fewer nodes than the config has now: its etcd knows those alone, and one that is founded with more is another
// cluster. flags are those of the etcd containers that are there, by the address of their node; a node of the config with etcd that
// is in away could not be asked. The error is *FoundingError or *AwayError.
func (c Cluster) Founders(flags map[string][]string, away map[string]error) ([]string, error) {
	peers := map[string]string{} // addresses by what etcd calls them
	var all, unknown []string
	for _, n := range c.Config.Nodes {
		if !n.Has(config.RoleEtcd) {
			continue
		}
		at := cmp.Or(n.InternalAddress, n.Address)
		peers["https://"+net.JoinHostPort(at, "2380")] = n.Address
		all = append(all, n.Address)
		if away[n.Address] != nil {
			unknown = append(unknown, n.Address)
		}
	}
	if c.Before != nil && len(unknown) > 0 {
		return nil, &AwayError{unknown}
	}
	if len(flags) == 0 {
		return all, nil
	}
	var founders []string
	apart := &FoundingError{Began: map[string]string{}}
	wrong := false
	for _, address := range sorted(flags) {
		cluster, joins := "", false
		for _, f := range flags[address] {
			if value, is := strings.CutPrefix(f, "--initial-cluster="); is {
				cluster = value
			}
			joins = joins || f == "--initial-cluster-state=existing"
		}
		apart.Began[address] = cluster
		if joins {
			continue // it found its cluster
		}
		var with []string
		for member := range strings.SplitSeq(cluster, ",") {
			_, url, _ := strings.Cut(member, "=")
			with = append(with, peers[url])
		}
		slices.Sort(with)
		wrong = wrong || slices.Contains(with, "") || founders != nil && !slices.Equal(founders, with)
		founders = with
	}
	if wrong || founders == nil {
		return nil, apart
	}
	return slices.DeleteFunc(all, func(address string) bool { return !slices.Contains(founders, address) }), nil
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
