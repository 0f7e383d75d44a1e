package downstream_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel/answers"
)

func TestTheNextHostInTurn(t *testing.T) {
	subjects := func(names string) (all []records.Subject) {
		for name := range strings.FieldsSeq(names) {
			all = append(all, records.Subject(name))
		}
		return all
	}
	for _, tc := range []struct {
		name                   string
		staying, leaving, open string
		agent                  string
		last                   string
		want                   string // of four tries
		err                    string
	}{
		{name: "one", staying: "a", open: "a", want: "a a a a"},
		{name: "all in turn", staying: "c a b", open: "a b c", want: "a b c a"},
		{name: "from the last one on", staying: "a b c", open: "a b c", last: "b", want: "c a b c"},
		{name: "the last one is gone", staying: "a c", open: "a c", last: "b", want: "c a c a"},
		{name: "names that begin alike", staying: "a aa ab", open: "a aa ab", want: "a aa ab a"},
		{name: "with a tunnel only", staying: "a b c", open: "c", want: "c c c c"},
		{name: "not one that is being removed", staying: "b", leaving: "a c", open: "a b c", want: "b b b b"},
		{name: "one that is being removed, if there is no other", staying: "b", leaving: "a c", open: "a c", want: "a c a c"},
		{name: "the agent first, then the hosts in turn", agent: "z", staying: "a b", open: "a b z", want: "z a b z"},
		{name: "after the last host the agent again", agent: "z", staying: "a b", open: "a b z", last: "b", want: "z a b z"},
		{name: "after the host in the middle the next host", agent: "z", staying: "a b", open: "a b z", last: "a", want: "b z a b"},
		{name: "the hosts while the agent has no tunnel", agent: "z", staying: "a b", open: "a b", last: "z", want: "a b a b"},
		{name: "an agent without hosts", agent: "z", open: "z", want: "z z z z"},
		{name: "the agent while no host has a tunnel", agent: "z", staying: "a", open: "z", want: "z z z z"},
		{name: "no tunnel from the agent alone", agent: "z", err: "the tunnel of the cluster's agent is not open"},
		{name: "no tunnel", staying: "a b", leaving: "c", err: "no tunnel from a, b is open; drover's agent opens one, an agent of another make does not"},
		{name: "no tunnel, all being removed", leaving: "c", err: "no tunnel from c is open; drover's agent opens one, an agent of another make does not"},
		{name: "none", err: downstream.ErrNoControlPlane.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := downstream.Ways{Last: records.Subject(tc.last)}
			var got []string
			for range 4 {
				s, err := h.Next(records.Subject(tc.agent), subjects(tc.staying), subjects(tc.leaving), func(s records.Subject) bool {
					return slices.Contains(subjects(tc.open), s)
				})
				if tc.err != "" {
					if err == nil || err.Error() != tc.err {
						t.Errorf("error = %v, want %s", err, tc.err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(s))
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("tries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFailuresOfAllHostsAreShown(t *testing.T) {
	open := map[records.Subject]bool{"a": true, "b": true}
	connected := func(s records.Subject) bool { return open[s] }
	h := downstream.Ways{}
	fail := func(last records.Subject, why, want string) {
		t.Helper()
		h.Last = last
		if got := h.Failed(errors.New(why), connected).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	fail("b", "b: refused", "b: refused")
	fail("a", "a: no answer", "a: no answer; b: refused")
	fail("b", "b: no answer", "a: no answer; b: no answer")
	open["a"] = false
	fail("b", "b: no answer", "b: no answer")
	open["a"] = true
	fail("a", "a: no answer", "a: no answer; b: no answer")
	h.Worked()
	fail("b", "b: refused", "b: refused")
	if err := h.Failed(&downstream.NoTunnelError{Machines: []records.Subject{"a"}}, connected); !errors.As(err, new(*downstream.NoTunnelError)) {
		t.Errorf("no tunnel: %v", err)
	}
	fail("a", "a: refused", "a: refused")
}

func TestAWayThatIsBarred(t *testing.T) {
	now := time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC)
	open := func(records.Subject) bool { return true }
	h := downstream.Ways{}
	large := &answers.TooLargeError{From: "the Kubernetes API of cluster harbour over host a", What: "a list of nodes", Bytes: 16 << 20}
	b := h.Bar("a", large, now)
	if want := "the Kubernetes API of cluster harbour over host a answered a list of nodes with more than 16 MiB; it is asked again at 2026-11-25T09:05:00Z"; b.Error() != want || !errors.Is(b, large) {
		t.Errorf("it says %q", b)
	}
	h.Bar("b", large, now.Add(-time.Minute))
	all := []records.Subject{"a", "b", "c", ""}
	for _, tc := range []struct {
		after time.Duration
		may   string
		// first is the way that is tried first again.
		first string
	}{{0, "c", "b"}, {downstream.BarredFor - time.Minute, "b c", "a"}, {downstream.BarredFor, "a b c", ""}} {
		var may []string
		for _, way := range all[:3] {
			if h.May(way, now.Add(tc.after)) {
				may = append(may, string(way))
			}
		}
		first := h.Barred(all, open, now.Add(tc.after))
		if strings.Join(may, " ") != tc.may || (first == nil) != (tc.first == "") || first != nil && first.Until != map[string]time.Time{"a": b.Until, "b": b.Until.Add(-time.Minute)}[tc.first] {
			t.Errorf("after %s: %s may, %v", tc.after, may, first)
		}
	}
	if first := h.Barred(all, func(s records.Subject) bool { return s == "c" }, now); first != nil {
		t.Errorf("without a tunnel: %v", first)
	}
	if err := h.Failed(b, open); !errors.Is(err, large) {
		t.Errorf("what is shown is %v", err)
	}
}
