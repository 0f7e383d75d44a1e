package engine

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

// --update-only leaves etcd and the control plane as they are, and is refused where the workers cannot be changed without them.
func TestUpdateOnly(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*run.Work)
		want   string // of the error
	}{
		"nothing else": {func(*run.Work) {}, ""},
		"a worker joins": {func(w *run.Work) {
			w.Config.Nodes = append(w.Config.Nodes, config.Node{Address: "10.0.0.3", Role: []string{"worker"}})
		}, ""},
		"a new cluster": {func(w *run.Work) { w.Before = nil }, "this one is new"},
		"encryption": {func(w *run.Work) {
			w.Config.Services.KubeAPI.SecretsEncryptionConfig = &config.SecretsEncryption{Enabled: true}
		}, "secrets_encryption_config has changed"},
		"a control plane host joins": {func(w *run.Work) { w.Config.Nodes[1].Role = []string{"worker", "controlplane"} }, "host 10.0.0.2 gets or loses role controlplane"},
		"a member joins": {func(w *run.Work) {
			w.Config.Nodes = append(w.Config.Nodes, config.Node{Address: "10.0.0.3", Role: []string{"etcd"}})
		}, "host 10.0.0.3 gets or loses role etcd"},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, yml)
			s, _, err := run.Init(y.work, y.o.Source())
			if err != nil {
				t.Fatal(err)
			}
			was := *s.Desired.Config
			was.Nodes = append([]config.Node{}, was.Nodes...)
			y.work.Before = (&state.State{Desired: state.Part{Config: &was, Certificates: s.Desired.Certificates}}).Deployed()
			y.work.UpdateOnly = true
			c.change(&y.work)
			r := run.New(y.o, y.work)
			next, _, err := run.Init(y.work, y.o.Source())
			if err != nil {
				t.Fatal(err)
			}
			if err := workersAlone(r, next); (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			if c.want != "" {
				_, err := Up(t.Context(), y.o, y.work)
				_, previewed := Preview(t.Context(), y.o, y.work)
				if err == nil || previewed == nil || len(y.saved) > 0 {
					t.Errorf("up: %v, preview: %v, %d states were saved", err, previewed, len(y.saved))
				}
			}
		})
	}
	y, r, _ := deployedYard(t, yml)
	r.Work.UpdateOnly = true
	for _, name := range []string{"etcd", "kube-apiserver", "kubelet"} {
		y.hosts["10.0.0.1"].Change(t, name, func(c *dockerstandin.Container) { c.Config.Image = "another:1" })
	}
	h := r.Hosts["10.0.0.1"]
	if err := reach.Look(t.Context(), r, h); err != nil {
		t.Fatal(err)
	}
	if err := plane.ReadFiles(t.Context(), r, h); err != nil {
		t.Fatal(err)
	}
	if all := plane.ChangesOf(r, h).Containers; len(all) != 1 || all[0].Container != "kubelet" {
		t.Errorf("in a preview: %v", all)
	}
	y.hosts["10.0.0.1"].Requests()
	if err := r.Perform(t.Context(), []run.Phase{etcdPhase}); err != nil {
		t.Fatal(err)
	}
	if made := y.hosts["10.0.0.1"].Requests(); len(made) != 0 {
		t.Errorf("etcd was touched: %v", made)
	}
}

// What --update-only leaves alone is not in its preview: hosts that leave, and add-ons, for which the cluster is not even asked.
func TestUpdateOnlyIsPreviewed(t *testing.T) {
	y, _, _ := deployedYard(t, yml)
	work := y.work
	cfg := *work.Config
	cfg.Nodes = cfg.Nodes[:1] // the other one, a worker, leaves
	work.Config, work.UpdateOnly = &cfg, true
	c, err := Preview(t.Context(), y.o, work)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Hosts) != 1 || c.Hosts[0].Address != "10.0.0.1" || len(c.Addons) != 0 {
		t.Errorf("would be done: %q", c.Lines())
	}
}
