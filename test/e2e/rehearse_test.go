//go:build e2e && e2e_full

package e2e

// Rehearsals with the real k3s: a file of a snapshot is restored on a host that has no cluster, and nothing of it is left there.

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/realk3s"
)

func TestRehearsal(t *testing.T) {
	walkMany(t, sealedK3s, []string{realk3s.Version}, []manyStep{
		{"a machine joins", func(f *fleet) { f.join(f.start("pier-1", []string{"--all-roles"})); f.awaitActive(1) }},
		{"it takes a snapshot", (*fleet).snapshots},
		{"the snapshot is rehearsed on a machine of a fleet", (*fleet).rehearses},
	})
}

// rehearses copies the snapshot to a host of a fleet, rehearses it there, and then a file that was cut.
func (f *fleet) rehearses() {
	one := f.of(f.servers()[0])
	content, err := f.servers()[0].ReadFile(f.ctx, strings.TrimPrefix(one.File, "file://"))
	must(f.T, err)
	spare, err := f.Host(f.ctx, "spare-1")
	must(f.T, err)
	line := strings.ReplaceAll(strings.TrimSpace(f.drover("fleets", "join-command", "spare", "--node-name", "spare-1")), "| sudo ", "| ")
	if out, err := spare.Sh(f.ctx, line); err != nil {
		f.Fatalf("join: %v: %s", err, out)
	}
	must(f.T, spare.WriteFile(f.ctx, "/root/copied", content, 0o600))
	must(f.T, spare.WriteFile(f.ctx, "/root/cut", content[:len(content)/2], 0o600))
	joined := regexp.MustCompile(`spare +f-\w+ +1 +1 Waiting for plan`)
	ctx, cancel := context.WithTimeout(f.ctx, manyPatience)
	defer cancel()
	must(f.T, bed.Await(ctx, "the spare host joins", time.Second, func(context.Context) error {
		if out := f.drover("fleets", "ls"); !joined.MatchString(out) {
			return fmt.Errorf("fleets are\n%s", out)
		}
		return nil
	}))
	before, err := spare.Sh(f.ctx, "ls /var/lib/rancher /etc/rancher /usr/local/bin; systemctl list-units --all --plain --no-legend 'drover*' 'k3s*'")
	must(f.T, err)

	began := time.Now()
	out := f.drover("snapshots", "rehearse", "harbour", one.Name, "--on", "spare-1", "--wait") // which its host alone has
	f.Logf("the rehearsal: %s\n%s", time.Since(began).Round(100*time.Millisecond), out)
	f.drover("snapshots", "rehearse", "harbour", "/root/copied", "--on", "spare-1", "--wait")
	var list []struct {
		Name      string
		Rehearsal *struct {
			Cause   string
			Objects int
			Counts  map[string]int
		}
	}
	must(f.T, json.Unmarshal([]byte(f.drover("snapshots", "ls", "harbour", "-o", "json")), &list))
	found := false
	for _, s := range list {
		if s.Name == one.Name && s.Rehearsal != nil {
			found = s.Rehearsal.Cause == "" && s.Rehearsal.Counts["nodes"] == 1 && s.Rehearsal.Counts["secrets"] > 0 && s.Rehearsal.Objects > 50
			f.Logf("it is %+v", *s.Rehearsal)
		}
	}
	if !found {
		f.Errorf("no good rehearsal of %s is shown: %+v", one.Name, list)
	}
	if out, err := f.Drover(f.ctx, "snapshots", "rehearse", "harbour", "/root/cut", "--on", "spare-1", "--wait"); err == nil || !strings.Contains(out+err.Error(), "was cut") {
		f.Errorf("a file that was cut: %v, %s", err, out)
	}
	after, err := spare.Sh(f.ctx, "ls /var/lib/rancher /etc/rancher /usr/local/bin; systemctl list-units --all --plain --no-legend 'drover*' 'k3s*'")
	must(f.T, err)
	if after != before {
		f.Errorf("on the host there was\n%s\nand there is\n%s", before, after)
	}
	f.rehearsesByItself()
	f.drover("fleets", "rm", "spare", "--yes", "--force")
	must(f.T, spare.Remove(f.ctx))
}

// rehearsesByItself has the newest snapshot rehearsed every minute, sees two of them end well, and ends that.
func (f *fleet) rehearsesByItself() {
	f.drover("clusters", "rehearsals", "harbour", "--every", "1m", "--fleet", "spare")
	ends := map[string]time.Time{}
	ctx, cancel := context.WithTimeout(f.ctx, 2*manyPatience)
	defer cancel()
	must(f.T, bed.Await(ctx, "two rehearsals by themselves", time.Second, func(context.Context) error {
		var is struct {
			Good *struct {
				Operation string
				At        time.Time
			}
			Last *struct{ Cause string }
		}
		out := f.drover("clusters", "rehearsals", "harbour", "-o", "json")
		if err := json.Unmarshal([]byte(out), &is); err != nil {
			return err
		}
		if is.Last != nil && is.Last.Cause != "" && len(ends) > 0 {
			f.Fatalf("a rehearsal failed: %s", out)
		}
		if is.Good != nil {
			ends[is.Good.Operation] = is.Good.At
		}
		if len(ends) < 3 { // with the last one that was asked for
			return fmt.Errorf("it stands at %s", out)
		}
		return nil
	}))
	f.Logf("rehearsals ended at %v", ends)
	if out := f.drover("clusters", "show", "harbour"); !strings.Contains(out, "rehearsed") || !strings.Contains(out, ": ok (1 node, ") {
		f.Errorf("show:\n%s", out)
	}
	f.drover("clusters", "rehearsals", "harbour", "--off")
	// One that has begun goes on to its end.
	must(f.T, bed.Await(ctx, "the end of the last one", time.Second, func(context.Context) error {
		if out := f.drover("clusters", "rehearsals", "harbour"); strings.Contains(out, "under way") {
			return fmt.Errorf("it stands at %s", out)
		}
		return nil
	}))
}
