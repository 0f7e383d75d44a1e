package roles

import (
	"reflect"
	"testing"
)

// TestSum: whatever of grants is different, their sum is.
func TestSum(t *testing.T) {
	all := []*Grants{
		{},
		{Global: []Rule{{}}},
		{Global: []Rule{{Verbs: []string{"get"}}}},
		{Global: []Rule{{Resources: []string{"get"}}}},
		{Global: []Rule{{Verbs: []string{"get", "list"}}}},
		{Global: []Rule{{Verbs: []string{"getlist"}}}},
		{Global: []Rule{{Verbs: []string{"get"}}, {Verbs: []string{"list"}}}},
		{Global: []Rule{{ResourceNames: []string{"get"}}}},
		{Global: []Rule{{APIGroups: []string{"get"}}}},
		{Global: []Rule{{NonResourceURLs: []string{"get"}}}},
		{Clusters: map[string][]Rule{"a": {{Verbs: []string{"get"}}}}},
		{Clusters: map[string][]Rule{"b": {{Verbs: []string{"get"}}}}},
		{Projects: map[string][]Rule{"a": {{Verbs: []string{"get"}}}}},
		{Clusters: map[string][]Rule{"a": {{Verbs: []string{"get"}}}, "b": {}}},
		{Clusters: map[string][]Rule{"a": {}, "b": {{Verbs: []string{"get"}}}}},
	}
	for i, a := range all {
		for j, b := range all {
			if same := a.Sum() == b.Sum(); same != (i == j) {
				t.Errorf("sums of %+v and %+v: same %v", a, b, same)
			}
		}
	}
	if (*Grants)(nil).Sum() != all[0].Sum() {
		t.Error("no grants are others than none")
	}
	if of := reflect.TypeFor[Rule](); of.NumField() != 5 {
		t.Errorf("a rule has %d fields, and five are summed up", of.NumField())
	}
	if of := reflect.TypeFor[Grants](); of.NumField() != 3 {
		t.Errorf("grants have %d fields, and three are summed up", of.NumField())
	}
}
