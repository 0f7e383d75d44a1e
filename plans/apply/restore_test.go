package apply_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// standingOf is a plan of the source "remote" that was applied.
func standingOf(t testing.TB, p plans.Plan) apply.Standing {
	d := delivery(t, p)
	return apply.Standing{Source: d.Source, Checksum: d.Checksum, Plan: d.Plan}
}

// TestWhatInstructionsChangedIsNotPutBack: a plan may fill in its own files, with no one to do it again.
func TestWhatInstructionsChangedIsNotPutBack(t *testing.T) {
	for _, test := range []struct {
		name   string
		before func(h *host) // the restart
		want   []string
		port   string
	}{
		{"noted", func(*host) {}, []string{"/etc/fixed"}, "port=8443"},
		{"by an agent that did not note it", func(h *host) { h.forgetChanged(false) }, nil, "port=8443"},
		{"by the original agent", func(h *host) { h.forgetChanged(true) }, nil, "port=8443"},
		{"after another plan", func(h *host) { h.apply(plans.Plan{}, id("uid-2")) }, []string{"/etc/app.conf", "/etc/fixed", "/etc/moved"}, "port=@PORT@"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			p := plans.Plan{
				Files: []plans.File{file("/etc/app.conf", "port=@PORT@"), file("/etc/fixed", "1"), file("/etc/moved", "2")},
				Instructions: []plans.OneTimeInstruction{shell("fill", "sed -i s/@PORT@/8443/ "+h.root("/etc/app.conf")+
					" && mv "+h.root("/etc/moved")+" "+h.root("/etc/elsewhere"))},
			}
			h.apply(p)
			test.before(h)
			if err := os.WriteFile(h.root("/etc/fixed"), []byte("by hand"), 0o600); err != nil {
				t.Fatal(err)
			}
			changed, err := h.engine().RestoreFiles(t.Context(), standingOf(t, p))
			if err != nil {
				t.Fatal(err)
			}
			if test.want == nil { // missing is all that is known to be wrong
				test.want = []string{"/etc/moved"}
			}
			if diff := cmp.Diff(test.want, changed); diff != "" {
				t.Error(diff)
			}
			if got := h.content(h.root("/etc/app.conf")); got != test.port {
				t.Errorf("app.conf has %q", got)
			}
		})
	}
}

// forgetChanged has the ledger as agents wrote it before, or takes it away.
func (h *host) forgetChanged(whole bool) {
	h.t.Helper()
	path := h.path("ledgers", "remote.json")
	if whole {
		if err := os.Remove(path); err != nil {
			h.t.Fatal(err)
		}
		return
	}
	h.changeLedger(func(l map[string]any) { delete(l, "changed") })
}

// changeLedger writes the ledger of plans of a server anew, in the form of before it had two slots.
func (h *host) changeLedger(change func(map[string]any)) {
	h.t.Helper()
	fields := map[string]any{}
	if err := json.Unmarshal(h.ledger("remote"), &fields); err != nil {
		h.t.Fatal(err)
	}
	change(fields)
	text, err := json.Marshal(fields)
	if err == nil {
		err = os.WriteFile(h.path("ledgers", "remote.json"), text, 0o600)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestTwoNamesOfOneFile: /lib is a link to /usr/lib on most hosts. The plan's order holds, and a
// preview says the same.
func TestTwoNamesOfOneFile(t *testing.T) {
	h := newHost(t)
	h.put("/usr/lib/x.service", "old", 0o600)
	if err := os.Symlink("usr/lib", h.root("/lib")); err != nil {
		t.Fatal(err)
	}
	p := plans.Plan{Files: []plans.File{
		file("/lib/x.service", "1"), file("/usr/lib/x.service", "2"), file("/lib/x.service", "2"), file("/usr/lib/x.service", "old"),
	}}
	var seen []string
	for _, c := range h.look(p).Files {
		seen = append(seen, c.Action+" "+c.Path+" "+string(c.Old)+">"+string(c.New))
	}
	want := []string{"replace /lib/x.service old>1", "replace /usr/lib/x.service 1>2", "replace /usr/lib/x.service 2>old"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
	if r := h.apply(p); !r.Succeeded {
		t.Fatalf("%+v", r.Failure)
	}
	if got := h.content(h.root("/usr/lib/x.service")); got != "old" {
		t.Errorf("the last of the plan is %q", got)
	}
}
