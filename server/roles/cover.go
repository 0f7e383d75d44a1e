// Whether rules allow something, and whether they allow all that other rules do. The latter is
// what keeps people from giving more than they have.

package roles

import (
	"slices"
	"strings"
)

// Request is something that a user wants to do with a resource.
type Request struct {
	Group, Resource, Verb string
	// Name is the object's; empty for none in particular.
	Name string
}

const anything = "*"

// everything is what an administrator may do.
func everything() []Rule {
	return []Rule{
		{APIGroups: []string{anything}, Resources: []string{anything}, Verbs: []string{anything}},
		{NonResourceURLs: []string{anything}, Verbs: []string{anything}},
	}
}

// Allows says whether one of the rules allows a request.
func Allows(rules []Rule, q Request) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool { return r.allows(q) })
}

func (r Rule) allows(q Request) bool {
	return has(r.APIGroups, q.Group) && r.hasResource(q.Resource) && has(r.Verbs, q.Verb) &&
		(len(r.ResourceNames) == 0 || q.Name != "" && slices.Contains(r.ResourceNames, q.Name))
}

func has(list []string, wanted string) bool {
	return slices.Contains(list, anything) || slices.Contains(list, wanted)
}

func (r Rule) hasResource(wanted string) bool {
	if has(r.Resources, wanted) {
		return true
	}
	_, part, ok := strings.Cut(wanted, "/")
	return ok && slices.Contains(r.Resources, "*/"+part)
}

// Covers says whether rules allow everything that others do; missing is the first of the others
// that goes beyond them.
func Covers(have, want []Rule) (missing Rule, ok bool) {
	for _, w := range want {
		if !covers(have, w) {
			return w, false
		}
	}
	return Rule{}, true
}

// covers takes the wanted rule apart into single requests: each may be allowed by another rule.
func covers(have []Rule, want Rule) bool {
	for _, path := range want.NonResourceURLs {
		for _, verb := range want.Verbs {
			if !slices.ContainsFunc(have, func(r Rule) bool { return has(r.Verbs, verb) && r.hasPath(path) }) {
				return false
			}
		}
	}
	names := want.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range want.APIGroups {
		for _, resource := range want.Resources {
			for _, verb := range want.Verbs {
				for _, name := range names {
					if !Allows(have, Request{group, resource, verb, name}) {
						return false
					}
				}
			}
		}
	}
	return true
}

func (r Rule) hasPath(wanted string) bool {
	return slices.ContainsFunc(r.NonResourceURLs, func(path string) bool {
		start, open := strings.CutSuffix(path, anything)
		return path == wanted || open && strings.HasPrefix(wanted, start)
	})
}
