package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/dial"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

// lifeline is a connection that is cut with everything else when so many requests were sent.
type lifeline struct {
	net.Conn
	left *atomic.Int64
	cut  context.CancelCauseFunc
}

var errKilled = errors.New("killed")

func (l lifeline) Write(p []byte) (int, error) {
	if l.left.Add(-1) < 0 {
		l.cut(errKilled)
		l.Conn.Close()
		return 0, errKilled
	}
	return l.Conn.Write(p)
}

// beforeEtcd are the phases that need nothing but Docker, and then the containers.
func beforeEtcd() []run.Phase {
	i := slices.IndexFunc(upPhases, func(p run.Phase) bool { return p.ID == "etcd" })
	return append(slices.Clone(upPhases[:i]), run.Phase{ID: "containers", Title: "Containers", Run: func(ctx context.Context, r *run.Run) error {
		for _, role := range []string{config.RoleEtcd, config.RoleWorker} {
			if err := run.Each(ctx, r.With(""), run.Parallel, plane.BringPlane(r, role)); err != nil {
				return err
			}
		}
		return nil
	}})
}

// once goes through these phases; a run that is cut off ends with an error.
func (y *yard) once(ctx context.Context, o run.Options) error {
	next, _, err := run.Init(y.work, o.Source())
	if err != nil {
		return err
	}
	r := run.New(o, y.work)
	defer r.Close()
	if err := r.SaveState(ctx, next); err != nil {
		return err
	}
	// The next run finds what this one kept.
	y.work.Before = next
	return r.Perform(ctx, beforeEtcd())
}

// A run that is killed at any request of Docker's API, whatever phase it is in, is continued by the next one to the same end: with the
// same containers and files, none of them twice, and nothing left over.
func TestARunThatIsKilledAnywhere(t *testing.T) {
	for _, after := range []int64{0, 3, 6, 9, 13, 17, 22, 28, 35, 43, 52, 62, 75, 90, 110, 140} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			y := newYard(t, yml)
			y.healthy()
			images := y.work.Config.SystemImages
			for _, e := range y.hosts {
				for _, image := range []string{images.Alpine, images.Etcd, images.Kubernetes, images.PodInfraContainer, y.o.Versions.ToolsImage(images.Alpine)} {
					e.AddImage(image, dockerstandin.Image{Pullable: true})
				}
			}
			ctx, cut := context.WithCancelCause(t.Context())
			defer cut(nil)
			left := &atomic.Int64{}
			left.Store(after)
			killed := y.o
			killed.Dial = func(n config.Node) dial.Dialer {
				of := y.o.Dial(n)
				return func(ctx context.Context, network, address string) (net.Conn, error) {
					conn, err := of(ctx, network, address)
					if err != nil || network != "unix" {
						return conn, err
					}
					return lifeline{conn, left, cut}, nil
				}
			}
			if err := y.once(ctx, killed); err == nil {
				t.Error("a run that is killed ends well")
			}
			if y.work.Before == nil || len(y.saved) == 0 {
				t.Error("no state was kept")
			}
			if err := y.once(t.Context(), y.o); err != nil {
				t.Fatal(err)
			}
			for address, want := range map[string][]string{
				"10.0.0.1": {"etcd", "etcd-rolling-snapshots", "kube-proxy", "kubelet"}, "10.0.0.2": {"kube-proxy", "kubelet", "nginx-proxy", "service-sidekick"},
			} {
				all := y.hosts[address].Containers()
				if diff := cmp.Diff(want, slices.Sorted(maps.Keys(all))); diff != "" {
					t.Errorf("host %s:\n%s", address, diff)
				}
				for name, c := range all {
					if c.Running == (name == "service-sidekick") {
						t.Errorf("host %s: %s runs: %t", address, name, c.Running)
					}
				}
				ca := y.hosts[address].Files()["/etc/kubernetes/ssl/kube-ca.pem"].Contents
				if got := y.work.Before.Desired.Certificates["kube-ca"].CertificatePEM; strings.TrimSpace(ca) != strings.TrimSpace(got) || got == "" {
					t.Errorf("host %s has another CA than the state", address)
				}
			}
		})
	}
}

// An image that no registry has ends the run before anything of the cluster is changed.
func TestAnImageThatIsNotThere(t *testing.T) {
	y := newYard(t, yml)
	y.healthy()
	y.work.DisablePortCheck = true
	images := y.work.Config.SystemImages
	for _, e := range y.hosts {
		for _, image := range []string{images.Alpine, images.Etcd, images.PodInfraContainer, y.o.Versions.ToolsImage(images.Alpine)} {
			e.AddImage(image, dockerstandin.Image{})
		}
	}
	err := y.once(t.Context(), y.o)
	for _, want := range []string{"host 10.0.0.1", "pull image " + images.Kubernetes, "manifest unknown"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	for address, e := range y.hosts {
		if len(e.Containers())+len(e.Files()) > 0 {
			t.Errorf("host %s was changed: %v, %v", address, e.Containers(), e.Files())
		}
	}
}
