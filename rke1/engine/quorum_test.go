package engine

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

// counted lets the one-time containers of a name do nothing, and counts them.
func counted(e *dockerstandin.Engine, name string, n *atomic.Int64) {
	e.OnStart(name, func(dockerstandin.Container) (int, string) {
		n.Add(1)
		return 0, ""
	})
}

// TestAMemberChangesWhileAllWork: a member that works is stopped for a change when all others work, and the next one's turn comes when it
// works again. Its data are etcd's user's before it starts.
func TestAMemberChangesWhileAllWork(t *testing.T) {
	for name, c := range map[string]struct {
		before, after bool // it works
		want          string
	}{
		"all work":              {true, true, ""},
		"it is down":            {false, false, "etcd on host 10.0.0.2 has to change, which waits until every member works"},
		"it does not come back": {true, false, "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var r *run.Run
			var to, id string
			var e *dockerstandin.Engine
			r, to = voter(t, func(ctx context.Context) (net.Conn, error) {
				changed := e.Containers()[desired.Etcd].ID != id
				if !changed && c.before || changed && c.after {
					return new(net.Dialer).DialContext(ctx, "tcp", to)
				}
				interrupt() // what waits for it waits until then
				return nil, errors.New("connection refused")
			})
			y, h := r.Report.(*yard), r.Hosts["10.0.0.2"]
			if err := reach.Compare(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			e = y.hosts["10.0.0.2"]
			y.deploy(r, h)
			e.Change(t, desired.Etcd, func(is *dockerstandin.Container) { is.Config.Cmd = append(is.Config.Cmd, "--snapshot-count=5") })
			var fixed atomic.Int64
			counted(e, desired.EtcdFixPermissions, &fixed)
			if err := reach.Look(t.Context(), r, h); err != nil {
				t.Fatal(err)
			}
			id = e.Containers()[desired.Etcd].ID
			err := plane.RollEtcd(ctx, r, []*run.Host{h})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if changed := e.Containers()[desired.Etcd].ID != id; changed != c.before || fixed.Load() > 0 != changed {
				t.Errorf("it was changed: %t, and its data were prepared %d times", changed, fixed.Load())
			}
		})
	}
}

// TestAHostWithAnotherEtcd: what runs there is not the cluster's and stays; what does not run makes room, and its data stay beside.
func TestAHostWithAnotherEtcd(t *testing.T) {
	for name, running := range map[string]bool{"that runs": true, "that stands still": false} {
		t.Run(name, func(t *testing.T) {
			var r *run.Run
			var to string
			r, to = voter(t, func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", to) })
			y, first, h := r.Report.(*yard), r.Hosts["10.0.0.1"], r.Hosts["10.0.0.2"]
			if err := reach.Compare(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			e := y.hosts["10.0.0.2"]
			y.deploy(r, h)
			e.Change(t, desired.Etcd, func(is *dockerstandin.Container) { is.Running = running })
			var scripts []string
			e.OnStart(desired.EtcdFixPermissions, func(is dockerstandin.Container) (int, string) {
				scripts = append(scripts, strings.Join(slices.Concat(is.Config.Entrypoint, is.Config.Cmd), " "))
				return 0, "moved\n"
			})
			if err := reach.Look(t.Context(), r, h); err != nil {
				t.Fatal(err)
			}
			id := e.Containers()[desired.Etcd].ID
			err := plane.JoinEtcd(t.Context(), r, h, []*run.Host{first})
			_, all, listed := plane.Members(t.Context(), r, []*run.Host{first})
			if listed != nil {
				t.Fatal(listed)
			}
			is := e.Containers()[desired.Etcd]
			if running {
				if err == nil || !strings.Contains(err.Error(), "host 10.0.0.2 runs an etcd that is not a member of this cluster") || len(all) != 1 || is.ID != id || !is.Running || len(scripts) > 0 {
					t.Errorf("%v; the members are %v, the container %v, scripts %q", err, all, is, scripts)
				}
				return
			}
			// It is a learner that gets no data, as the stand-in runs nothing.
			if err == nil || len(all) != 2 || is.ID == id || !strings.Contains(strings.Join(slices.Concat(is.Config.Entrypoint, is.Config.Cmd), " "), "--initial-cluster-state=existing") {
				t.Errorf("%v; the members are %v, the container %v", err, all, is.Config)
			}
			if len(scripts) == 0 || !strings.Contains(scripts[0], plane.MoveEtcdAside) {
				t.Errorf("the scripts are %q", scripts)
			}
			if !slices.ContainsFunc(y.lines, func(line string) bool {
				return strings.HasPrefix(line, "WARN host [10.0.0.2] had data of another etcd")
			}) {
				t.Errorf("said %q", y.lines)
			}
		})
	}
}
