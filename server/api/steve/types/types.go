// Package types is what dashboards read over /v1 beside clusters: people, settings, nodes, tokens, preferences and features. They are
// changed over /v3.
package types

import (
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/conditions"
	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/preferences"
	"github.com/drover-project/drover/server/api/steve"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Of are those types.
func Of(s *state.State, now func() time.Time) []steve.Type {
	return append([]steve.Type{nodes(s), tokens(s, now), preferenceType(s), userPreferences(s, now), features(), snapshots(s)}, none()...)
}

func schema(kind, resource string, namespaced bool) steve.Schema {
	return steve.Schema{Group: "management.cattle.io", Version: "v3", Kind: kind, Resource: resource, Namespaced: namespaced}
}

// shown are things as the type has them.
func shown[T any](all []T, show func(T) steve.Seen) []steve.Seen {
	seen := make([]steve.Seen, 0, len(all))
	for _, one := range all {
		seen = append(seen, show(one))
	}
	return seen
}

func nodes(s *state.State) steve.Type {
	show := func(d store.Document[records.Machine]) steve.Seen {
		return steve.Seen{
			About:   auth.Object{Kind: auth.Machine, Key: conditions.NodeID(d.Value), Cluster: d.Value.ClusterID},
			Content: k8sobjects.Node(d), State: conditions.Machine(d.Value),
		}
	}
	id := func(m records.Machine) string { return strings.Replace(conditions.NodeID(m), ":", "/", 1) }
	return steve.Type{
		Schema: schema("Node", "nodes", true), Of: auth.Machine, Collection: subscribe.Machines,
		List: func() []steve.Seen {
			var all []steve.Seen
			for _, d := range s.Machines.List() {
				if !d.Value.InFleet() {
					all = append(all, show(d))
				}
			}
			return all
		},
		Get: func(wanted string) (steve.Seen, bool) {
			clusterID, _, _ := strings.Cut(wanted, "/")
			cl, _ := s.ClustersByID.First(clusterID)
			for _, d := range s.MachinesByCluster.Find(records.ClusterKey(cl.Key)) {
				if id(d.Value) == wanted {
					return show(*d), true
				}
			}
			return steve.Seen{}, false
		},
		Changed: func(c subscribe.Change) (string, *steve.Seen, bool) {
			d, gone, ok := subscribe.Of(c, s.Machines)
			if gone {
				last := show(d)
				return id(d.Value), &last, !d.Value.InFleet()
			}
			return id(d.Value), nil, ok && !d.Value.InFleet()
		},
	}
}

func tokens(s *state.State, now func() time.Time) steve.Type {
	show := func(d store.Document[records.Token]) steve.Seen {
		return steve.Seen{About: auth.Object{Kind: auth.Token, Key: d.Key, Owner: d.Value.UserID}, Content: k8sobjects.Token(d, now())}
	}
	return steve.Type{
		Schema: schema("Token", "tokens", false), Of: auth.Token, Collection: subscribe.Tokens, Own: true,
		List:    func() []steve.Seen { return shown(s.Tokens.List(), show) },
		Get:     func(id string) (steve.Seen, bool) { d, ok := s.Tokens.Get(id); return show(d), ok },
		Changed: subscribe.Shown(show),
	}
}

func preferenceType(s *state.State) steve.Type {
	show := func(d store.Document[records.Preference]) steve.Seen {
		return steve.Seen{About: auth.Object{Kind: auth.Preference, Key: d.Value.Name, Owner: d.Value.UserID}, Content: k8sobjects.Preference(d)}
	}
	return steve.Type{
		Schema: schema("Preference", "preferences", true), Of: auth.Preference, Collection: subscribe.Preferences, Own: true,
		List:    func() []steve.Seen { return shown(s.Preferences.List(), show) },
		Get:     func(id string) (steve.Seen, bool) { d, ok := s.Preferences.Get(id); return show(d), ok },
		Changed: subscribe.Shown(show),
	}
}

func features() steve.Type {
	show := func(f preferences.Feature) steve.Seen {
		return steve.Seen{About: auth.Object{Kind: auth.Feature, Key: f.Name}, Content: k8sobjects.Feature(f.Name, f.Description, f.On)}
	}
	return steve.Type{
		Schema: schema("Feature", "features", false), Of: auth.Feature,
		List: func() []steve.Seen { return shown(preferences.Features(), show) },
		Get: func(id string) (steve.Seen, bool) {
			for _, f := range preferences.Features() {
				if f.Name == id {
					return show(f), true
				}
			}
			return steve.Seen{}, false
		},
		Changed: func(subscribe.Change) (string, *steve.Seen, bool) { return "", nil, false }, // they are in no collection
	}
}
