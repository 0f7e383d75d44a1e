// What all bindings of a person come to, and a name for that.

package roles

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
)

// Grants are the rules that a user has, by where they hold. Nil has none. Change none of it: it
// is shared by all that asks for one request.
type Grants struct {
	Global []Rule
	// Clusters are by management ID, Projects by "<cluster id>:<project>". What is allowed in a
	// project is not allowed in its cluster.
	Clusters, Projects map[string][]Rule
}

// Of is what bindings come to. One to a role that is gone gives nothing.
func Of(bindings []Binding, find Lookup) *Grants {
	g := &Grants{Clusters: map[string][]Rule{}, Projects: map[string][]Rule{}}
	for _, b := range bindings {
		g.add(b, find)
	}
	return g
}

// And is what the grants and others allow.
func (g *Grants) And(others *Grants) *Grants {
	all := &Grants{Clusters: map[string][]Rule{}, Projects: map[string][]Rule{}}
	for _, one := range []*Grants{g, others} {
		if one == nil {
			continue
		}
		all.Global = append(all.Global, one.Global...)
		for id, rules := range one.Clusters {
			all.Clusters[id] = append(all.Clusters[id], rules...)
		}
		for id, rules := range one.Projects {
			all.Projects[id] = append(all.Projects[id], rules...)
		}
	}
	return all
}

// add: a user who has a role in a cluster or in one of its projects sees the cluster's record, by
// which clients find everything else.
func (g *Grants) add(b Binding, find Lookup) {
	context := b.Context()
	role, ok := find(KindOf(context), b.Role)
	if !ok || role.Context != context {
		return
	}
	rules := Resolve(role, find)
	switch context {
	case Global:
		g.Global = append(g.Global, rules...)
		return
	case Project:
		g.Projects[b.ProjectID] = append(g.Projects[b.ProjectID], rules...)
	case Cluster:
		g.Clusters[b.ClusterID] = append(g.Clusters[b.ClusterID], rules...)
	}
	g.Clusters[b.ClusterID] = append(g.Clusters[b.ClusterID], membership())
}

// Place is where a request is made; empty for none in particular.
type Place struct{ Cluster, Project string }

// Allow says whether a request is allowed at a place: by the rules of the server, of the cluster,
// or of the project.
func (g *Grants) Allow(q Request, at Place) bool {
	return g != nil && (Allows(g.Global, q) ||
		at.Cluster != "" && Allows(g.Clusters[at.Cluster], q) ||
		at.Project != "" && Allows(g.Projects[at.Project], q))
}

// Somewhere says whether a request is allowed at any place of a depth: at the server for Global,
// there or in some cluster for Cluster, in some project, too, for Project.
func (g *Grants) Somewhere(q Request, depth Context) bool {
	if g == nil {
		return false
	}
	if Allows(g.Global, q) {
		return true
	}
	if depth == Cluster || depth == Project {
		for _, rules := range g.Clusters {
			if Allows(rules, q) {
				return true
			}
		}
	}
	if depth == Project {
		for _, rules := range g.Projects {
			if Allows(rules, q) {
				return true
			}
		}
	}
	return false
}

// Everything says whether nothing is forbidden.
func (g *Grants) Everything() bool {
	if g == nil {
		return false
	}
	_, ok := Covers(g.Global, everything())
	return ok
}

// Give says whether a user with these grants may give rules at a place, which are not more than
// they have there; missing is the first rule that is. Rules of the server do not count for those
// inside a cluster, where they mean other objects, unless they are all that there is.
func (g *Grants) Give(rules []Rule, at Place) (missing Rule, ok bool) {
	if g == nil {
		return Covers(nil, rules)
	}
	if g.Everything() {
		return Rule{}, true
	}
	have := g.Global
	if at.Cluster != "" {
		have = append(append([]Rule(nil), g.Clusters[at.Cluster]...), g.Projects[at.Project]...)
	}
	return Covers(have, rules)
}

// Contain says whether nothing that others allow goes beyond these.
func (g *Grants) Contain(others *Grants) bool {
	if others == nil || g.Everything() {
		return true
	}
	if _, ok := g.Give(others.Global, Place{}); !ok {
		return false
	}
	for id, rules := range others.Clusters {
		if _, ok := g.Give(rules, Place{Cluster: id}); !ok {
			return false
		}
	}
	for id, rules := range others.Projects {
		if _, ok := g.Give(rules, Place{Cluster: ClusterOf(id), Project: id}); !ok {
			return false
		}
	}
	return true
}

// ClusterOf is the ID of a project's cluster.
func ClusterOf(projectID string) string {
	for i := range len(projectID) {
		if projectID[i] == ':' {
			return projectID[:i]
		}
	}
	return ""
}

// Resolve is the rules of a role with those that it inherits. A role that is gone has none, and
// one that comes twice is taken once, by any way.
func Resolve(r Role, find Lookup) []Rule {
	if len(r.Inherits) == 0 {
		return r.Rules
	}
	rules := append([]Rule(nil), r.Rules...)
	seen := map[string]bool{r.ID: true}
	for next := r.Inherits; len(next) > 0; {
		id := next[0]
		next = next[1:]
		if seen[id] {
			continue
		}
		seen[id] = true
		if one, ok := find(RoleTemplate, id); ok {
			rules = append(rules, one.Rules...)
			next = append(append([]string(nil), next...), one.Inherits...)
		}
	}
	return rules
}

// Sum is the same for grants of the same rules at the same places, in the same order, and different for all others.
func (g *Grants) Sum() [sha256.Size]byte {
	s := summer{sha256.New()}
	if g == nil {
		g = &Grants{}
	}
	s.rules(g.Global)
	for _, places := range []map[string][]Rule{g.Clusters, g.Projects} {
		s.size(len(places))
		for _, id := range slices.Sorted(maps.Keys(places)) {
			s.text(id)
			s.rules(places[id])
		}
	}
	return [sha256.Size]byte(s.Sum(nil))
}

// summer writes each thing with its size before it, so that nothing reads like something else.
type summer struct{ hash.Hash }

func (s summer) size(n int) {
	_, _ = s.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) // #nosec G115 -- never negative; a hash takes everything
}

func (s summer) text(text string) {
	s.size(len(text))
	_, _ = s.Write([]byte(text)) // a hash takes everything
}

func (s summer) rules(all []Rule) {
	s.size(len(all))
	for _, r := range all {
		for _, list := range [][]string{r.APIGroups, r.Resources, r.Verbs, r.ResourceNames, r.NonResourceURLs} {
			s.size(len(list))
			for _, text := range list {
				s.text(text)
			}
		}
	}
}
