package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

// A schedule that was just made waits a whole period; the first snapshot is taken by the run that made it, once, with the cluster's state
// in it, and a run that makes none takes none.
func TestTheFirstSnapshot(t *testing.T) {
	for name, c := range map[string]struct {
		made  bool
		code  int
		takes bool
		warns bool
	}{"a new schedule": {true, 0, true, false}, "one that stays": {false, 0, false, false}, "a snapshot that fails": {true, 1, true, true}} {
		t.Run(name, func(t *testing.T) {
			y, r, _ := deployedYard(t, yml)
			h, e := r.Hosts["10.0.0.1"], y.hosts["10.0.0.1"]
			if c.made {
				e.Kill(desired.RollingSnapshots)
			}
			if err := reach.Look(t.Context(), r, h); err != nil {
				t.Fatal(err)
			}
			var taken []string
			e.OnStart(desired.SnapshotOnce, func(is dockerstandin.Container) (int, string) {
				taken = append(taken, strings.Join(is.Config.Cmd, " "))
				if _, there := e.FilesLocked()["/etc/kubernetes/2026-01-01T12:00:00Z_etcd.rkestate"]; !there {
					t.Error("the state is not beside it")
				}
				return c.code, "no space left on device"
			})
			var removed []string
			e.OnStart("file-deployer", func(is dockerstandin.Container) (int, string) {
				removed = append(removed, strings.Join(slices.Concat(is.Config.Entrypoint, is.Config.Cmd), " "))
				return 0, ""
			})
			looks := 0
			e.OnStart("etcd-checksum-checker", func(dockerstandin.Container) (int, string) {
				if looks++; looks == 1 {
					return 0, ""
				}
				return 0, "archive\nsize 7\nsum abc\nstate\n"
			})
			if _, err := plane.Bring(t.Context(), r, h, config.RoleEtcd); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := end(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			if (len(taken) == 1) != c.takes || len(taken) > 1 || c.takes && !strings.Contains(taken[0], "--name 2026-01-01T12:00:00Z_etcd") {
				t.Errorf("taken: %q", taken)
			}
			// The state has all keys of the cluster, and is in the archive then, or nowhere.
			if want := "rm -f -- /etc/kubernetes/2026-01-01T12:00:00Z_etcd.rkestate"; slices.Contains(removed, want) != c.takes {
				t.Errorf("removed: %q", removed)
			}
			warned := slices.ContainsFunc(y.lines, func(line string) bool {
				return strings.HasPrefix(line, "WARN there is no snapshot of etcd yet") && strings.Contains(line, "no space left on device")
			})
			if warned != c.warns {
				t.Errorf("said %q", y.lines)
			}
		})
	}
	if name := snapshots.Rolling(noon, &config.BackupConfig{SafeTimestamp: true}); name != "2026-01-01T12-00-00Z_etcd" || errors.Join(snapshots.CheckName(name), snapshots.CheckName(snapshots.Rolling(noon, nil))) != nil {
		t.Error(name)
	}
}
