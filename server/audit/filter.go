// Filters: what an administrator does not want to have in the log, and what a reader wants to see of it.

package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Filter is what is left out: entries that meet all conditions of one of its rules.
type Filter [][]condition

// condition is that a field has a value, or begins with it where it ends in *.
type condition struct{ field, value string }

// filterFields are those that conditions are about.
var filterFields = []string{"user", "verb", "kind", "object", "source", "method", "path"}

const (
	maxRules      = 64
	maxConditions = 8
)

// ParseFilter reads rules such as "user=u-abcde verb=proxy; kind=setting verb=get". Its errors
// complete the sentence that begins with the text.
func ParseFilter(text string) (Filter, error) {
	var f Filter
	for rule := range strings.SplitSeq(text, ";") {
		var all []condition
		for word := range strings.FieldsSeq(rule) {
			field, value, ok := strings.Cut(word, "=")
			if !ok || value == "" || !slices.Contains(filterFields, field) {
				return nil, fmt.Errorf("has %.40q, which is not FIELD=VALUE with a field of %s; write it as user=u-abcde verb=proxy; path=/k8s/clusters/c-m-1/*", word, strings.Join(filterFields, ", "))
			}
			all = append(all, condition{field, value})
		}
		if len(all) > maxConditions {
			return nil, fmt.Errorf("has a rule with more than %d conditions", maxConditions)
		}
		if all != nil {
			f = append(f, all)
		}
	}
	if len(f) > maxRules {
		return nil, fmt.Errorf("has more than %d rules", maxRules)
	}
	return f, nil
}

// Leaves says whether the filter leaves an entry out.
func (f Filter) Leaves(e Entry) bool {
	return slices.ContainsFunc(f, func(rule []condition) bool {
		return !slices.ContainsFunc(rule, func(c condition) bool { return !c.holds(e) })
	})
}

func (c condition) holds(e Entry) bool {
	switch c.field {
	case "user":
		return matches(c.value, e.User) || matches(c.value, e.Username)
	case "verb":
		// Verbs of actions have spaces, which a rule cannot have: its last word is enough.
		return matches(c.value, e.Verb) || matches(c.value, lastWord(e.Verb))
	case "kind":
		return matches(c.value, e.Kind)
	case "object":
		return matches(c.value, e.Object)
	case "source":
		return matches(c.value, e.Source)
	case "method":
		return matches(c.value, e.Method)
	case "path":
		return matches(c.value, e.Path)
	}
	return false
}

func lastWord(s string) string { return s[strings.LastIndexByte(s, ' ')+1:] }

func matches(pattern, value string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(value, prefix)
	}
	return pattern == value
}

// Query is what a reader wants to see; empty fields want anything. Values may end in *, as in a filter.
type Query struct {
	User, Verb, Kind, Object string
	// Since is the time of the oldest entry that is wanted.
	Since time.Time
}

// Wants says whether a reader wants to see an entry.
func (q Query) Wants(e Entry) bool {
	for field, value := range map[string]string{"user": q.User, "verb": q.Verb, "kind": q.Kind, "object": q.Object} {
		if value != "" && !(condition{field, value}).holds(e) {
			return false
		}
	}
	return !e.Time.Before(q.Since)
}
