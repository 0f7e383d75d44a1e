package snapshots

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestChoose(t *testing.T) {
	good := func(sum string, withState bool) *Snapshot { return &Snapshot{Size: 1, Sum: sum, State: withState} }
	for _, tt := range []struct {
		name   string
		found  map[string]*Snapshot
		others []string
		from   string
		want   string
	}{
		{"one has it", map[string]*Snapshot{"a": nil, "b": good("1", true)}, nil, "b", ""},
		{"one with the state", map[string]*Snapshot{"a": good("1", false), "b": good("1", true)}, nil, "b", ""},
		{"a broken one does not count", map[string]*Snapshot{"a": {Broken: true}, "b": good("1", true)}, nil, "b", ""},
		{"they differ", map[string]*Snapshot{"a": good("1", true), "b": good("2", true)}, nil, "", "not consistent"},
		{"nobody", map[string]*Snapshot{"a": nil}, []string{"x", "y"}, "", "there are x, y"},
		{"all broken", map[string]*Snapshot{"a": {Broken: true}}, nil, "", "cannot be opened on a"},
	} {
		from, err := Choose("one", tt.found, tt.others)
		if from != tt.from || tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %q, %v", tt.name, from, err)
		}
	}
}

func TestReadSnapshot(t *testing.T) {
	for _, tt := range []struct {
		output []string
		want   *Snapshot
	}{
		{[]string{"other two", "size 12", "sum abc", "state"}, &Snapshot{Host: "a", Size: 12, Sum: "abc", State: true}},
		{[]string{"other two", "size 12"}, &Snapshot{Host: "a", Size: 12, Broken: true}}, // an archive without data
		{[]string{"other two", "broken"}, &Snapshot{Host: "a", Broken: true}},
		{[]string{"other two"}, nil},
	} {
		is, others := readSnapshot("a", tt.output)
		if diff := cmp.Diff(tt.want, is); diff != "" || !slices.Equal(others, []string{"two"}) {
			t.Errorf("%q: %v %s", tt.output, others, diff)
		}
	}
}

func TestNames(t *testing.T) {
	birth := time.Date(2024, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, name := range []string{Name(birth, false), Name(birth, true), "c-abc-rs-1", "one"} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	if name := Name(birth, true); strings.Contains(name, ":") {
		t.Errorf("%s is safe for no file system", name)
	}
	for _, name := range []string{"", "-rf", "../etc", "a b", "a/b", "*", strings.Repeat("a", 300)} {
		if CheckName(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
}
