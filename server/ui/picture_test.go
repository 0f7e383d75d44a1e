package ui

import (
	"fmt"
	"testing"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// TestTiers: what is not well is in the picture however many machines there are, and of the rest is told how many are in each state.
func TestTiers(t *testing.T) {
	var machines []apitypes.Machine
	for i := range 1000 {
		m := apitypes.Machine{ID: fmt.Sprint("ns/m", i), NodeName: fmt.Sprintf("host-%04d", i), State: records.Active, Roles: records.Roles{Worker: true}}
		switch {
		case i == 999:
			m.State = records.Unavailable
		case i >= 300 && i < 950:
			m.State = records.ApplyingPlan
		}
		machines = append(machines, m)
	}
	machines[0].Init, machines[1].Roles = true, records.Roles{Etcd: true}
	tiers := Tiers(machines)
	if len(tiers) != 3 || tiers[0].Title != "bootstrap" || tiers[1].Title != "etcd" || tiers[1].Small || len(tiers[0].Tiles) != 1 {
		t.Fatalf("%+v", tiers)
	}
	// 650 are at work, so that 51 of them have no tile, and none of the 347 that are well.
	if w := tiers[2]; w.Tiles[0].Name != "host-0999" || !w.Small || len(w.Tiles) != mostTiles || w.Total != 998 || w.Rest != "51 Applying plan, 347 Active" {
		t.Errorf("%d tiles of %d, first %+v, and %s", len(w.Tiles), w.Total, w.Tiles[0], w.Rest)
	}
	if tiers[1].Rest != "" || tiers[1].Total != 1 {
		t.Errorf("%+v", tiers[1])
	}
	if machines[999].State != records.Unavailable {
		t.Error("the machines were sorted in place")
	}
}

// TestTones: every state has the tone of what it means.
func TestTones(t *testing.T) {
	for state, want := range map[string]string{
		string(records.Active): "good", string(records.Failed): "bad", string(records.Disconnected): "bad", string(records.WaitingForProbes): "work", string(records.Registering): "rest",
		string(operations.Running): "work", string(operations.Queued): "rest", string(operations.Failed): "bad", string(operations.Succeeded): "good", "active": "good", "updating": "work", "pending": "rest",
	} {
		if got := Tone(state); got != want {
			t.Errorf("%s is %s, want %s", state, got, want)
		}
	}
}

// TestStanding: what a member is follows from what is known of etcd, and not from what is done on its machine.
func TestStanding(t *testing.T) {
	yes, no := true, false
	ready, away := &records.NodeRef{Name: "pier-1", Ready: true}, &records.NodeRef{Name: "pier-1"}
	for _, c := range []struct {
		name string
		is   Evidence
		want standing
	}{
		{"never joined", Evidence{Machine: records.Active, Probed: &yes, Node: ready}, outside},
		{"active, and nobody can ask", Evidence{Joined: true, Machine: records.Active}, well},
		{"a file changes, and nobody can ask", Evidence{Joined: true, Machine: records.ApplyingPlan}, unknown},
		{"a file changes, and the node is ready", Evidence{Joined: true, Machine: records.ApplyingPlan, Node: ready}, well},
		{"a file changes, and the probe is healthy", Evidence{Joined: true, Machine: records.ApplyingPlan, Probed: &yes}, well},
		{"a plan failed, and the node is ready", Evidence{Joined: true, Machine: records.Failed, Node: ready}, well},
		{"the probe says no, whatever the node says", Evidence{Joined: true, Machine: records.Active, Probed: &no, Node: ready}, unwell},
		{"the probe says yes, whatever the node says", Evidence{Joined: true, Machine: records.Unavailable, Probed: &yes, Node: away}, well},
		{"the node is not ready", Evidence{Joined: true, Machine: records.ApplyingPlan, Node: away}, unwell},
		{"does not vote", Evidence{Joined: true, Machine: records.Active, Node: ready, Voter: observed.VoterLearner}, unwell},
		{"unavailable", Evidence{Joined: true, Machine: records.Unavailable}, unwell},
		{"disconnected", Evidence{Joined: true, Machine: records.Disconnected}, unwell},
		{"removing", Evidence{Joined: true, Machine: records.Removing}, unknown},
	} {
		if got := c.is.Standing(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestQuorum: what is said of a quorum is true by what is known of each member.
func TestQuorum(t *testing.T) {
	for _, c := range []struct {
		members, told, warning string // w is well, u unwell, n not known, o outside
	}{
		{"", "No member has joined yet.", ""},
		{"o", "No member has joined yet.", ""},
		{"w", "1 of 1 member is well; 1 has to be.", ""},
		{"u", "0 of 1 member is well; 1 has to be.", "there is no quorum"},
		{"n", "0 of 1 member is well; 1 has to be. Of 1 it is not known.", "whether there is a quorum is not known"},
		{"wo", "1 of 1 member is well; 1 has to be. 1 machine has not joined.", ""},
		{"ww", "2 of 2 members are well; 2 have to be.", "none may fail now"},
		{"www", "3 of 3 members are well; 2 have to be.", ""},
		{"wwu", "2 of 3 members are well; 2 have to be.", "none may fail now"},
		{"wwn", "2 of 3 members are well; 2 have to be. Of 1 it is not known.", ""},
		{"wun", "1 of 3 members are well; 2 have to be. Of 1 it is not known.", "whether there is a quorum is not known"},
		{"wuu", "1 of 3 members are well; 2 have to be.", "there is no quorum"},
		{"uun", "0 of 3 members are well; 2 have to be. Of 1 it is not known.", "there is no quorum"},
		{"wwwuu", "3 of 5 members are well; 3 have to be.", "none may fail now"},
		{"wwwwoo", "4 of 4 members are well; 3 have to be. 2 machines have not joined.", ""},
	} {
		var members []Member
		for _, letter := range c.members {
			members = append(members, Member{Standing: map[rune]standing{'w': well, 'u': unwell, 'n': unknown, 'o': outside}[letter]})
		}
		if got := quorumOf(members); got.Told != c.told || got.Warning != c.warning {
			t.Errorf("%q: %q %q, want %q %q", c.members, got.Told, got.Warning, c.told, c.warning)
		}
	}
}

// TestTimeline: spans are where their times are, on an axis that holds all of them.
func TestTimeline(t *testing.T) {
	begin := time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	task := func(from, to int) operations.Task {
		one := operations.Task{ID: fmt.Sprint(from)}
		if from >= 0 {
			one.Started = at(from)
		}
		if to >= 0 {
			one.Ended = at(to)
		}
		return one
	}
	for _, c := range []struct {
		name    string
		state   operations.State
		ended   int
		tasks   []operations.Task
		now     int
		end     int
		want    [][2]int
		nothing bool
	}{
		{"ended", operations.Succeeded, 100, []operations.Task{task(0, 40), task(40, 100)}, 9999, 100, [][2]int{{0, 400}, {400, 600}}, false},
		{"one runs, one waits", operations.Running, -1, []operations.Task{task(0, 20), task(20, -1), task(-1, -1)}, 39, 40, [][2]int{{0, 500}, {500, 500}, {0, 0}}, false},
		{"in steps", operations.Running, -1, []operations.Task{task(0, -1)}, 101, 104, [][2]int{{0, 1000}}, false},
		{"the same step", operations.Running, -1, []operations.Task{task(0, -1)}, 103, 104, [][2]int{{0, 1000}}, false},
		{"very short", operations.Failed, 1000, []operations.Task{task(999, 1000), task(1000, 1000)}, 0, 1000, [][2]int{{994, 6}, {994, 6}}, false},
		{"a clock that was behind", operations.Running, -1, []operations.Task{task(50, 60)}, 10, 62, [][2]int{{806, 161}}, false},
		{"all at once", operations.Succeeded, 0, []operations.Task{task(0, 0)}, 0, 0, [][2]int{{0, 6}}, false},
		{"queued", operations.Queued, -1, []operations.Task{task(-1, -1)}, 10, 0, [][2]int{{0, 0}}, true},
	} {
		o := apitypes.Operation{OperationSummary: apitypes.OperationSummary{State: c.state}, Tasks: c.tasks}
		if !c.nothing {
			o.Started = begin
		}
		if c.ended >= 0 {
			o.Ended = at(c.ended)
		}
		got := timelineOf(o, at(c.now))
		if c.nothing != got.Begin.IsZero() || !c.nothing && !got.End.Equal(at(c.end)) || got.Open != (!c.state.Ended() && !c.nothing) {
			t.Errorf("%s: from %s to %s, open %t", c.name, got.Begin, got.End, got.Open)
		}
		for i, want := range c.want {
			if span := got.Rows[i]; span.X != want[0] || span.Width != want[1] {
				t.Errorf("%s: task %d is at %d, %d wide; want %v", c.name, i, span.X, span.Width, want)
			}
		}
	}
}
