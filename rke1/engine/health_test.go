package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

// A kubelet that was started counts as working when cri-dockerd listens beside it.
func TestAwaitSocket(t *testing.T) {
	for name, c := range map[string]struct {
		ends  []int // codes of the checks; the last one for all that follow
		fails bool
	}{"at once": {[]int{0}, false}, "after a while": {[]int{1, 1, 0}, false}, "never": {[]int{1}, true}} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, yml)
			y.work.Before = nil
			s, _, err := run.Init(y.work, y.o.Source())
			if err != nil {
				t.Fatal(err)
			}
			r := run.New(y.o, y.work)
			r.State = s
			defer r.Close()
			if err := errors.Join(reach.All(t.Context(), r), reach.Compare(t.Context(), r)); err != nil {
				t.Fatal(err)
			}
			h, e := r.Hosts["10.0.0.2"], y.hosts["10.0.0.2"]
			y.deploy(r, h)
			e.AddImage(y.work.Config.SystemImages.Alpine, dockerstandin.Image{})
			e.Change(t, desired.Kubelet, func(c *dockerstandin.Container) { c.Log = "cri-dockerd: address already in use\n" })
			asked := 0
			e.OnStart(desired.SocketChecker, func(dockerstandin.Container) (int, string) {
				code := c.ends[min(asked, len(c.ends)-1)]
				asked++
				return code, ""
			})
			for _, w := range h.Desired.Containers {
				if w.Name != desired.Kubelet {
					if err := plane.AwaitSocket(t.Context(), r, h, w); err != nil || asked != 0 {
						t.Errorf("%s: asked %d times, %v", w.Name, asked, err)
					}
				}
			}
			kubelet := h.Desired.Plane("worker")
			err = nil
			for _, w := range kubelet {
				if w.Name == desired.Kubelet {
					err = plane.AwaitSocket(t.Context(), r, h, w)
				}
			}
			unhealthy := new(onhost.UnhealthyError)
			if errors.As(err, &unhealthy) != c.fails || (err != nil) != c.fails || !c.fails && asked != len(c.ends) {
				t.Errorf("asked %d times: %v", asked, err)
			}
			if c.fails && (!strings.Contains(err.Error(), "10.0.0.2") || !strings.Contains(err.Error(), "address already in use") || !strings.Contains(err.Error(), "cri_dockerd_stream_server_port")) {
				t.Error(err)
			}
		})
	}
}
