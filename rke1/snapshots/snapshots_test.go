package snapshots

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestChoose(t *testing.T) {
	good := func(host string, archive, withState bool) *Snapshot {
		return &Snapshot{Host: host, Size: 1, Sum: "sum of " + host, Archive: archive, State: withState}
	}
	broken := &Snapshot{Host: "a", Archive: true, Broken: true}
	for _, tt := range []struct {
		name   string
		found  []*Snapshot
		others []string
		host   string
		want   string // of the error
	}{
		{"one has it", []*Snapshot{nil, good("b", true, true)}, nil, "b", ""},
		{"all have it", []*Snapshot{good("a", true, true), good("b", true, true)}, nil, "a", ""},
		{"one with the state", []*Snapshot{good("a", true, false), good("b", true, true)}, nil, "b", ""},
		{"data that an interrupted restore left", []*Snapshot{good("a", false, false), good("b", true, false)}, nil, "b", ""},
		{"data alone", []*Snapshot{nil, good("b", false, false)}, nil, "b", ""},
		{"a broken one does not count", []*Snapshot{broken, good("b", true, true)}, nil, "b", ""},
		{"nobody", []*Snapshot{nil}, []string{"x", "y"}, "", "no etcd host has snapshot one; there are x, y"},
		{"all broken", []*Snapshot{broken, nil}, nil, "", "cannot be opened on a"},
	} {
		s, err := Choose("one", tt.found, tt.others)
		if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) || tt.want == "" && (err != nil || s.Host != tt.host) {
			t.Errorf("%s: %v, %v", tt.name, s, err)
		}
	}
}

func TestReadSnapshot(t *testing.T) {
	for _, tt := range []struct {
		output []string
		want   *Snapshot
	}{
		{[]string{"other two", "archive", "size 12", "sum abc", "state"}, &Snapshot{Host: "a", Size: 12, Sum: "abc", Archive: true, State: true}},
		{[]string{"other two", "archive", "size 12"}, &Snapshot{Host: "a", Size: 12, Archive: true, Broken: true}}, // an archive without data
		{[]string{"other two", "broken"}, &Snapshot{Host: "a", Broken: true}},
		{[]string{"other two", "size 12", "sum abc"}, &Snapshot{Host: "a", Size: 12, Sum: "abc"}},
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
