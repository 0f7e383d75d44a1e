package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/rollout"
	"github.com/drover-project/drover/rke1/engine/snapshot"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

// TestFilesThatTheConfigHasNoMore are removed from the hosts that have them, and others are left.
func TestFilesThatTheConfigHasNoMore(t *testing.T) {
	const gone, never = "/etc/kubernetes/cloud-config", "/etc/kubernetes/tidal.yaml"
	y, r, _ := deployedYard(t, yml)
	for address, has := range map[string]bool{"10.0.0.1": true, "10.0.0.2": false} {
		h, e := r.Hosts[address], y.hosts[address]
		kept := e.Files()
		if has {
			e.SetFile(gone, &dockerstandin.File{Contents: "[global]", Mode: 0o600})
		}
		removed := 0
		e.OnStart("file-deployer", func(c dockerstandin.Container) (int, string) {
			removed++
			if !slices.Equal(append(slices.Clone(c.Config.Entrypoint), c.Config.Cmd...), []string{"rm", "-f", "--", gone}) {
				t.Errorf("%s runs %v", address, c.Config.Entrypoint)
			}
			e.SetFile(gone, nil)
			return 0, ""
		})
		h.Desired.Files = append(slices.Clone(h.Desired.Files), desired.File{Path: gone}, desired.File{Path: never})
		if err := plane.DeployTo(t.Context(), r, h); err != nil {
			t.Fatal(err)
		}
		if (removed == 1) != has || len(e.Files()) != len(kept) {
			t.Errorf("%s removed files %d times, and has %d where it had %d", address, removed, len(e.Files()), len(kept))
		}
	}
}

// TestWhatIsMendedFirst: what crashes again and again is started anew before pods are asked to leave; where the sidekick is
// to be replaced, nothing is started on its old volumes.
func TestWhatIsMendedFirst(t *testing.T) {
	for name, sidekick := range map[string]bool{"a kubelet that crashes": false, "and another sidekick": true} {
		t.Run(name, func(t *testing.T) {
			y, r, _ := deployedYard(t, yml)
			h, e := r.Hosts["10.0.0.2"], y.hosts["10.0.0.2"]
			e.Change(t, desired.Kubelet, func(is *dockerstandin.Container) {
				is.Restarting, is.Config.Cmd = true, []string{"kubelet", "--v=9"}
			})
			if sidekick {
				e.Change(t, desired.Sidekick, func(is *dockerstandin.Container) { is.Config.Image = "rancher/rke-tools:v0.1.1" })
			}
			if err := reach.Look(t.Context(), r, h); err != nil {
				t.Fatal(err)
			}
			before := e.Containers()
			todo := plane.Differences(r, h, config.RoleWorker)
			left, err := rollout.Mend(t.Context(), r, h, []string{config.RoleWorker}, todo)
			if err != nil {
				t.Fatal(err)
			}
			if sidekick && len(left) != len(todo) || !sidekick && rollout.Concerns(left, desired.Kubelet) {
				t.Errorf("of %v is left %v", todo, left)
			}
			if mended := e.Containers()[desired.Kubelet].ID != before[desired.Kubelet].ID; mended == sidekick {
				t.Errorf("the kubelet was made anew: %t", mended)
			}
		})
	}
}

// TestWhichHostsSnapshotGoesIntoABucket: the best, and no other one where the bucket refuses it.
func TestWhichHostsSnapshotGoesIntoABucket(t *testing.T) {
	_, s3 := harbour(t)
	y, r, hosts := members(t)
	for _, address := range []string{"10.0.0.1", "10.0.0.2"} {
		y.hosts[address].SetFile(snapshots.Dir+"/one.zip", &dockerstandin.File{Contents: archive(t, "one", "word of "+address), Mode: 0o600})
	}
	all := snapshotsOn(t, r, hosts, "one")
	all[0].State = false // a host whose archive has no state is the worse one
	if err := snapshot.PutIntoBucket(t.Context(), r, snapshot.SnapshotRequest{Name: "one", S3: s3}, all); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(y.lines, "\n"); !strings.Contains(said, "Snapshot [one] of host ["+all[1].Host+"] is in ") {
		t.Errorf("said is %s", said)
	}
	y.lines, s3.SecretKey = nil, "hunter3"
	if err := snapshot.PutIntoBucket(t.Context(), r, snapshot.SnapshotRequest{Name: "one", S3: s3}, all); err == nil {
		t.Error("a wrong key is taken")
	}
	if said := strings.Join(y.lines, "\n"); strings.Contains(said, "WARN") {
		t.Errorf("a refused bucket is asked by the next host: %s", said)
	}
}
