package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/dial"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/pki/pkitest"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const yml = `
kubernetes_version: v1.30.5-rancher1-1
network: {plugin: none}
dns: {provider: none}
ingress: {provider: none}
monitoring: {provider: none}
nodes:
- {address: 10.0.0.1, user: rke, role: [etcd, controlplane, worker]}
- {address: 10.0.0.2, user: rke, role: [worker]}
`

// yard is hosts with stand-ins of Docker. What needs etcd or Kubernetes is tested end to end.
type yard struct {
	*testing.T
	hosts map[string]*dockerstandin.Engine
	o     run.Options
	work  run.Work

	mu    sync.Mutex
	lines []string
	saved []*state.State
	away  map[string]error
	sick  atomic.Bool
}

func (y *yard) Phase(id, _ string) {}

func (y *yard) Line(text string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.lines = append(y.lines, text)
}

func (y *yard) Warn(text string, steps ...advice.Step) {
	y.Line(advice.Sentence("WARN "+text, steps, func(s advice.Step) string { return fmt.Sprintf("step %d", s.Kind) }))
}

func newYard(t *testing.T, text string) *yard {
	t.Helper()
	v, err := versions.Load(t.Context(), "", versions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Parse(strictyaml.Source{File: "cluster.yml"}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c := config.WithDefaults(file.Cluster, config.Versions{Default: v.Default(), Images: v.Images})
	y := &yard{T: t, hosts: map[string]*dockerstandin.Engine{}, away: map[string]error{}}
	for _, n := range c.Nodes {
		e := dockerstandin.New(t)
		e.SetInfo("ServerVersion", "20.10.24")
		y.hosts[n.Address] = e
	}
	y.o = run.Options{
		Versions: v, Report: y, Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }, Pause: time.Millisecond,
		Source: func() pki.Source { return pkitest.Source(noon, 0) },
		Save: func(_ context.Context, s *state.State) error {
			y.saved = append(y.saved, s)
			return nil
		},
		Dial: func(n config.Node) dial.Dialer {
			return func(ctx context.Context, network, address string) (net.Conn, error) {
				if err := y.away[n.Address]; err != nil {
					return nil, err
				}
				if network != "unix" {
					return nil, errors.New("nothing listens there")
				}
				return new(net.Dialer).DialContext(ctx, network, y.hosts[n.Address].Socket)
			}
		},
	}
	y.work = run.Work{Config: &c}
	return y
}

// untouched checks that no host was changed.
func (y *yard) untouched() {
	y.Helper()
	for address, e := range y.hosts {
		for _, r := range e.Requests() {
			y.Errorf("host %s was changed: %s %s", address, r.Method, r.Path)
		}
	}
}

func TestHostsThatEndARunBeforeItBegins(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*yard)
		want    []string
	}{
		"no etcd host answers": {
			func(y *yard) { y.away["10.0.0.1"] = errors.New("no route to host") },
			[]string{"no etcd host can be reached, so that nothing was changed", "10.0.0.1", "no route to host"},
		},
		"Docker is too old": {
			func(y *yard) { y.hosts["10.0.0.2"].SetInfo("ServerVersion", "1.12.6") },
			[]string{"Unsupported Docker version found [1.12.6] on host [10.0.0.2]", "ignore_docker_version"},
		},
		"a name is taken": {
			func(y *yard) {
				y.hosts["10.0.0.2"].AddImage("busybox", dockerstandin.Image{})
				y.hosts["10.0.0.2"].Run(y, "kubelet", "busybox", nil)
			},
			[]string{"containers that are not of this cluster have names", "kubelet on host 10.0.0.2", "docker rename"},
		},
		"a host does not say what it has": {
			func(y *yard) { y.hosts["10.0.0.2"].Fail(http.MethodGet, "/containers/json", 500, "dockerd is ill") },
			[]string{"look at host 10.0.0.2", "dockerd is ill"},
		},
		"a host runs Windows": {
			func(y *yard) { y.hosts["10.0.0.2"].SetInfo("OSType", "windows") },
			[]string{"host 10.0.0.2", "windows"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, yml)
			c.prepare(y)
			s, err := Up(t.Context(), y.o, y.work)
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %q", err, want)
				}
			}
			if s == nil || s.Desired.Config == nil || s.Current.Config != nil {
				t.Errorf("the state afterwards: %+v", s)
			}
			for _, line := range y.lines {
				if strings.Contains(line, "no route to host") {
					t.Errorf("what the error says stands before it, too: %s", line)
				}
			}
			y.untouched()
		})
	}
}

// A host that the run goes on without is warned of once, with the reason and without an address that is not dialled.
func TestAHostThatIsAway(t *testing.T) {
	for name, do := range map[string]func(*yard) error{
		"up": func(y *yard) error { _, err := Up(t.Context(), y.o, y.work); return err },
		"remove": func(y *yard) error {
			s, _, err := run.Init(y.work, y.o.Source())
			if err != nil {
				return err
			}
			y.work.Before = s
			return Remove(t.Context(), y.o, y.work)
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, yml)
			y.away["10.0.0.2"] = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
			err := do(y)
			warned := 0
			for _, line := range y.lines {
				if strings.Contains(line, "WARN host [10.0.0.2] cannot be reached: dial tcp: connection refused") {
					warned++
				}
			}
			if warned != 1 || err != nil && strings.Contains(err.Error(), "connection refused") {
				t.Errorf("warned %d times of it; the error is %v; lines %q", warned, err, y.lines)
			}
		})
	}
}

func TestDockerVersionsThatAreTaken(t *testing.T) {
	for name, c := range map[string]struct {
		version  string
		work     func(*run.Work)
		warns    bool
		accepted bool
	}{
		"known":            {"20.10.24", func(*run.Work) {}, false, true},
		"newer than known": {"99.0.1", func(*run.Work) {}, true, true},
		"old, by the flag": {"1.12.6", func(w *run.Work) { w.IgnoreDockerVersion = true }, false, true},
		"old, by the file": {"1.12.6", func(w *run.Work) { yes := true; w.Config.IgnoreDockerVersion = &yes }, false, true},
		"old":              {"1.12.6", func(*run.Work) {}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, yml)
			for _, e := range y.hosts {
				e.SetInfo("ServerVersion", c.version)
			}
			c.work(&y.work)
			_, err := Preview(t.Context(), y.o, y.work)
			var unsupported *reach.UnsupportedDockerError
			if errors.As(err, &unsupported) == c.accepted || c.accepted && err != nil {
				t.Errorf("got %v", err)
			}
			warned := slices.ContainsFunc(y.lines, func(line string) bool { return strings.HasPrefix(line, "WARN") && strings.Contains(line, c.version) })
			if warned != c.warns {
				t.Errorf("warned: %t, %q", warned, y.lines)
			}
		})
	}
}

// The preview of a new cluster names everything, and changes nothing.
func TestPreviewOfANewCluster(t *testing.T) {
	y := newYard(t, yml)
	y.away["10.0.0.2"] = errors.New("no route to host")
	changes, err := Preview(t.Context(), y.o, y.work)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(changes.Lines(), "\n")
	for _, want := range []string{
		"10.0.0.1: joins the cluster", "10.0.0.1 file /etc/kubernetes/ssl/kube-ca.pem: write", "10.0.0.1 image rancher/hyperkube:v1.30.5-rancher1: pull",
		"10.0.0.1 etcd: create", "10.0.0.1 kube-apiserver: create", "10.0.0.2: cannot be reached",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if len(y.saved) != 0 {
		t.Error("a preview saved a state")
	}
	y.untouched()
}

// A registry of ECR without a login is said before anything is pulled, and hosts that have the images go on.
func TestARegistryWithoutALogin(t *testing.T) {
	y := newYard(t, yml+"private_registries: [{url: 1234.dkr.ecr.eu-central-1.amazonaws.com, ecr_credential_plugin: {aws_access_key_id: AKIA}}]\n")
	if _, err := Preview(t.Context(), y.o, y.work); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(y.lines, "\n"); !strings.Contains(text, "WARN private_registries: 1234.dkr.ecr.eu-central-1.amazonaws.com has no login by ecr_credential_plugin") {
		t.Errorf("a preview says %s", text)
	}
}

// What a state cannot be kept in is known before anything is changed.
func TestAStateThatCannotBeSaved(t *testing.T) {
	y := newYard(t, yml)
	y.o.Save = func(context.Context, *state.State) error { return errors.New("no space left on device") }
	_, err := Up(t.Context(), y.o, y.work)
	if err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("got %v", err)
	}
	y.untouched()
}

// A cluster that runs as it should has an empty preview; each thing that was changed by hand is one line.
func TestPreviewOfARunningCluster(t *testing.T) {
	y := newYard(t, yml)
	s, _, err := run.Init(y.work, y.o.Source())
	if err != nil {
		t.Fatal(err)
	}
	y.work.Before = s.Deployed()
	r := run.New(y.o, y.work)
	r.State = y.work.Before
	defer r.Close()
	if err := errors.Join(reach.All(t.Context(), r), reach.Compare(t.Context(), r)); err != nil {
		t.Fatal(err)
	}
	for _, h := range r.With("") {
		y.deploy(r, h)
		h.Found.Containers, h.Found.Images = nil, nil
		if err := errors.Join(reach.Look(t.Context(), r, h), plane.ReadFiles(t.Context(), r, h)); err != nil {
			t.Fatal(err)
		}
		if c := plane.ChangesOf(r, h); c.Any() {
			t.Errorf("%s: %+v", h.Node.Address, c)
		}
	}
	worker := r.Hosts["10.0.0.2"]
	e := y.hosts["10.0.0.2"]
	e.Change(t, "kubelet", func(c *dockerstandin.Container) { c.Config.Entrypoint = append(c.Config.Entrypoint, "--v=9") })
	e.Change(t, "kube-proxy", func(c *dockerstandin.Container) { c.Running = false })
	e.SetFile("/etc/kubernetes/ssl/kube-node.pem", &dockerstandin.File{Contents: "another", Mode: 0o600})
	if err := errors.Join(reach.Look(t.Context(), r, worker), plane.ReadFiles(t.Context(), r, worker)); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, d := range plane.ChangesOf(r, worker).Containers {
		lines = append(lines, d.String())
	}
	if got := strings.Join(lines, "\n"); got != "10.0.0.2 kubelet: replace (flag --v)\n10.0.0.2 kube-proxy: start (it does not run)" {
		t.Error(got)
	}
	if files := plane.ChangesOf(r, worker).Files; !slices.Equal(files, []string{"/etc/kubernetes/ssl/kube-node.pem"}) {
		t.Errorf("files: %v", files)
	}
}

// deploy makes a stand-in what a run would have made of it.
func (y *yard) deploy(r *run.Run, h *run.Host) {
	y.Helper()
	e := y.hosts[h.Node.Address]
	for _, image := range h.Desired.Images {
		e.AddImage(image, dockerstandin.Image{Env: []string{"PATH=/bin"}, Cmd: []string{"sh"}})
	}
	for _, f := range plane.FilesOf(r, h) {
		e.SetFile(f.Path, &dockerstandin.File{Contents: string(f.Contents), Mode: int64(f.Mode.Perm()), UID: f.UID, GID: f.GID})
	}
	for _, c := range h.Desired.Containers {
		if err := h.Engine().Perform(y.Context(), nodeconfig.Action{Kind: nodeconfig.Create, Name: c.Name, Process: &c.Process}); err != nil {
			y.Fatal(err)
		}
		if c.Name == desired.Sidekick && e.Containers()[c.Name].Running {
			y.Error("the sidekick was started")
		}
	}
}
