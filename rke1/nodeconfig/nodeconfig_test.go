package nodeconfig_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans/apply/hostfs"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name string, v any) {
	t.Helper()
	got, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: %s", path, diff)
	}
}

func worker(t testing.TB) *nodeconfig.NodeConfig {
	t.Helper()
	b, err := os.ReadFile("testdata/worker.json")
	if err != nil {
		t.Fatal(err)
	}
	c, err := nodeconfig.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOnTheWire(t *testing.T) {
	c := worker(t)
	golden(t, "worker.golden", c)
	contents, err := c.Contents()
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, f := range contents {
		files = append(files, fmt.Sprintf("%s %d certificate=%v", f.Path, len(f.Bytes), f.Certificate))
	}
	golden(t, "files.golden", files)
}

// bench is a host with an engine that has the worker's images.
func bench(t *testing.T) (*dockerstandin.Engine, *nodeconfig.Engine) {
	t.Helper()
	d := dockerstandin.New(t)
	d.AddImage("rancher/hyperkube:v1.30.5-rancher1", dockerstandin.Image{Env: []string{"PATH=/usr/bin"}, Cmd: []string{"bash"}, Pullable: true})
	d.AddImage("rancher/rke-tools:v0.1.105", dockerstandin.Image{Env: []string{"PATH=/usr/bin"}, Labels: map[string]string{"made": "by somebody"}})
	d.AddImage("rancher/rancher-agent:v2.9.9", dockerstandin.Image{Env: []string{"A=1"}, Entrypoint: []string{"/run.sh"}})
	return d, &nodeconfig.Engine{Docker: d.Client(t), Logger: slog.New(slog.DiscardHandler)}
}

func apply(t *testing.T, e *nodeconfig.Engine, c *nodeconfig.NodeConfig, renewed bool) []nodeconfig.Action {
	t.Helper()
	plan, err := e.Apply(t.Context(), c, renewed)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// brief is a plan as the tests write it.
func brief(plan []nodeconfig.Action) string {
	var words []string
	for _, a := range plan {
		word := string(a.Kind) + " " + a.Name
		if len(a.Reasons) > 0 {
			word += " (" + strings.Join(a.Reasons, ", ") + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, "; ")
}

func TestWorkerFromNothing(t *testing.T) {
	d, e := bench(t)
	plan := apply(t, e, worker(t), true)
	if got, want := brief(plan), "create service-sidekick; create share-mnt; create kube-proxy; create kubelet; create nginx-proxy"; got != want {
		t.Errorf("%s", got)
	}
	golden(t, "requests.golden", d.Requests())
	if again := apply(t, e, worker(t), false); len(again) > 0 {
		t.Errorf("a second pass does %s", brief(again))
	}
	for name, c := range d.Containers() {
		if c.Running == (name == nodeconfig.Sidekick) {
			t.Errorf("%s: running is %v", name, c.Running)
		}
	}
}

// TestALateRequest of a run that was killed reaches Docker after this one has looked: what it made gives way, and nothing else of that name does.
func TestALateRequest(t *testing.T) {
	p := worker(t).Processes["kubelet"]
	for _, c := range []struct {
		name     string
		label    string
		running  bool
		givesWay bool
	}{
		{"it was never started", "kubelet", false, true},
		{"it runs", "kubelet", true, false},
		{"it is not the cluster's", "", false, false},
		{"it is of another process", "kube-proxy", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, e := bench(t)
			d.Run(t, "kubelet", "rancher/rke-tools:v0.1.105", map[string]string{nodeconfig.Label: c.label})
			d.Change(t, "kubelet", func(one *dockerstandin.Container) {
				if !c.running {
					one.Running, one.Starts = false, 0
				}
			})
			before := d.Containers()["kubelet"].ID
			err := e.Perform(t.Context(), nodeconfig.Action{Kind: nodeconfig.Create, Name: "kubelet", Process: &p})
			is := d.Containers()["kubelet"]
			if c.givesWay != (err == nil) || c.givesWay != (is.ID != before) || !c.givesWay && is.Running != c.running {
				t.Errorf("%v; it is %+v", err, is)
			}
		})
	}
}

func TestWhatChanges(t *testing.T) {
	change := func(name string, f func(*nodeconfig.Process)) func(*nodeconfig.NodeConfig) {
		return func(c *nodeconfig.NodeConfig) {
			p := c.Processes[name]
			f(&p)
			c.Processes[name] = p
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*nodeconfig.NodeConfig)
		behind func(*testing.T, *dockerstandin.Engine)
		renew  bool
		want   string
	}{
		{"nothing", nil, nil, false, ""},
		{"certificates", nil, nil, true, "restart kube-proxy; restart kubelet"},
		{"a new variable", change("kubelet", func(p *nodeconfig.Process) { p.Env = append(p.Env, "X=secret") }), nil, false, "replace kubelet (env X)"},
		{"another value", change("kubelet", func(p *nodeconfig.Process) { p.Env = []string{"RKE_KUBELET_CRIDOCKERD=secret"} }), nil, false, "replace kubelet (env RKE_KUBELET_CRIDOCKERD)"},
		{"a removed variable", change("kubelet", func(p *nodeconfig.Process) { p.Env = nil }), nil, false, "replace kubelet (env RKE_KUBELET_CRIDOCKERD is not wanted any more)"},
		{"flags in another order", change("kubelet", func(p *nodeconfig.Process) { slices.Reverse(p.Command) }), nil, false, ""},
		{"another flag", change("kubelet", func(p *nodeconfig.Process) { p.Command = append(p.Command, "--v=3") }), nil, false, "replace kubelet (command)"},
		{"arguments in another order", change("share-mnt", func(p *nodeconfig.Process) { slices.Reverse(p.Args) }), nil, false, "replace share-mnt (args)"},
		{"binds in another order", change("kubelet", func(p *nodeconfig.Process) { slices.Reverse(p.Binds) }), nil, false, "replace kubelet (binds)"},
		{"a label", change("kubelet", func(p *nodeconfig.Process) { p.Labels["x"] = "y" }), nil, false, "replace kubelet (label x)"},
		{"ports, user, modes", change("share-mnt", func(p *nodeconfig.Process) {
			p.Publish, p.User, p.NetworkMode, p.PidMode, p.Privileged, p.VolumesFrom = nil, "", "", "host", false, []string{"x"}
		}), nil, false, "replace share-mnt (networkMode, pidMode, privileged, volumesFrom, publish, user)"},
		{"the helper's image", change(nodeconfig.Sidekick, func(p *nodeconfig.Process) { p.Image = "rancher/rancher-agent:v2.9.9" }), nil, false,
			"replace service-sidekick (image); replace kube-proxy (service-sidekick is a new one); replace kubelet (service-sidekick is a new one)"},
		{"a killed container", nil, func(_ *testing.T, d *dockerstandin.Engine) { d.Kill("kubelet") }, false, "create kubelet"},
		{"a stopped container", nil, func(t *testing.T, d *dockerstandin.Engine) {
			d.Change(t, "kubelet", func(c *dockerstandin.Container) { c.Running = false })
		}, false, "start kubelet"},
		{"a stopped one that differs", change("kubelet", func(p *nodeconfig.Process) { p.Env = nil }), func(t *testing.T, d *dockerstandin.Engine) {
			d.Change(t, "kubelet", func(c *dockerstandin.Container) { c.Running = false })
		}, false, "replace kubelet (env RKE_KUBELET_CRIDOCKERD is not wanted any more)"},
		{"share-mnt that has done its work", nil, func(t *testing.T, d *dockerstandin.Engine) {
			d.Change(t, "share-mnt", func(c *dockerstandin.Container) { c.Running = false })
		}, false, ""},
		{"one of another name with the label", nil, func(t *testing.T, d *dockerstandin.Engine) {
			d.Change(t, "nginx-proxy", func(c *dockerstandin.Container) { c.Name = "renamed" })
		}, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, e := bench(t)
			c := worker(t)
			apply(t, e, c, false)
			if tc.change != nil {
				tc.change(c)
			}
			if tc.behind != nil {
				tc.behind(t, d)
			}
			plan := apply(t, e, c, tc.renew)
			if got := brief(plan); got != tc.want {
				t.Errorf("does %q, want %q", got, tc.want)
			}
			if again := apply(t, e, c, false); len(again) > 0 {
				t.Errorf("a second pass does %s", brief(again))
			}
		})
	}
}

// TestOldOneIsKept replaces a kubelet while one of Docker's calls fails, and again without.
func TestOldOneIsKept(t *testing.T) {
	for _, tc := range []struct {
		name, method, path string
		code               int
		kept               bool
	}{
		{"no image", "POST", "/images/create", 500, true},
		{"create", "POST", "/containers/create", 500, true},
		{"stop", "POST", "/stop", 500, true},
		{"first rename", "POST", "name=old-kubelet", 500, true},
		{"second rename", "POST", "/rename?name=kubelet", 500, true},
		{"start", "POST", "/start", 500, true},
		{"remove", "DELETE", "/containers/", 500, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, e := bench(t)
			c := worker(t)
			apply(t, e, c, false)
			before := d.Containers()["kubelet"]
			p := c.Processes["kubelet"]
			p.Env = nil
			if tc.name == "no image" {
				p.Image = "rancher/hyperkube:v9"
			}
			c.Processes["kubelet"] = p
			d.Fail(tc.method, tc.path, tc.code, "the disk is full")
			_, err := e.Apply(t.Context(), c, false)
			if err == nil || !strings.Contains(err.Error(), "replace container kubelet") || !strings.Contains(err.Error(), "the disk is full") {
				t.Errorf("error %v", err)
			}
			now, there := d.Containers()["kubelet"]
			if !there || !now.Running || (now.ID == before.ID) != tc.kept {
				t.Errorf("kubelet is %+v", now)
			}
			if tc.name == "no image" {
				d.AddImage("rancher/hyperkube:v9", dockerstandin.Image{Pullable: true})
			}
			for range 2 {
				apply(t, e, c, false)
			}
			all := d.Containers()
			if names := slices.Sorted(maps.Keys(all)); !slices.Equal(names, []string{"kube-proxy", "kubelet", "nginx-proxy", "service-sidekick", "share-mnt"}) {
				t.Errorf("left are %v", names)
			}
			if now := all["kubelet"]; now.ID == before.ID || !now.Running {
				t.Errorf("kubelet was not replaced afterwards: %+v", now)
			}
		})
	}
}

// TestInterrupted makes the states that a crash leaves between the steps of a replacement.
func TestInterrupted(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(t *testing.T, d *dockerstandin.Engine, e *nodeconfig.Engine)
		want string
	}{
		{"new one made", func(t *testing.T, d *dockerstandin.Engine, e *nodeconfig.Engine) {
			copyOf(t, e, "kubelet", "new-kubelet")
		}, "discard kubelet"},
		{"old one renamed", func(t *testing.T, d *dockerstandin.Engine, e *nodeconfig.Engine) {
			copyOf(t, e, "kubelet", "new-kubelet")
			d.Change(t, "kubelet", func(c *dockerstandin.Container) { c.Name, c.Running = "old-kubelet", false })
		}, "discard kubelet; create kubelet"},
		{"both renamed", func(t *testing.T, d *dockerstandin.Engine, e *nodeconfig.Engine) {
			copyOf(t, e, "kubelet", "old-kubelet")
			d.Change(t, "kubelet", func(c *dockerstandin.Container) { c.Running = false })
		}, "start kubelet; discard kubelet"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, e := bench(t)
			c := worker(t)
			apply(t, e, c, false)
			tc.make(t, d, e)
			if got := brief(apply(t, e, c, false)); got != tc.want {
				t.Errorf("does %q, want %q", got, tc.want)
			}
			all := d.Containers()
			if len(all) != 5 || !all["kubelet"].Running {
				t.Errorf("left are %v", slices.Sorted(maps.Keys(all)))
			}
		})
	}
}

func copyOf(t *testing.T, e *nodeconfig.Engine, name, as string) {
	t.Helper()
	r, err := e.Docker.ContainerInspect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Docker.ContainerCreate(t.Context(), r.Config, r.HostConfig, nil, nil, as); err != nil {
		t.Fatal(err)
	}
}

func TestOneFailureStopsNoOther(t *testing.T) {
	d, e := bench(t)
	d.Fail("POST", "name=kube-proxy", 500, "out of names")
	plan, err := e.Apply(t.Context(), worker(t), false)
	if err == nil || !strings.Contains(err.Error(), "out of names") {
		t.Error(err)
	}
	if all := d.Containers(); len(plan) != 5 || len(all) != 4 || !all["kubelet"].Running {
		t.Errorf("%s; there are %v", brief(plan), slices.Sorted(maps.Keys(all)))
	}
}

func TestLogLinker(t *testing.T) {
	d, e := bench(t)
	c := worker(t)
	apply(t, e, c, false)
	d.Requests()
	found, err := e.Look(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(found, func(c nodeconfig.Container) bool { return c.Name == "kubelet" })
	if err := e.LinkLog(t.Context(), "rancher/rke-tools:v0.1.105", found[i]); err != nil {
		t.Fatal(err)
	}
	golden(t, "loglinker.golden", d.Requests())
	if _, there := d.Containers()["rke-log-linker-kubelet"]; there {
		t.Error("the linker is still there")
	}
}

func TestWriteFiles(t *testing.T) {
	root := t.TempDir()
	c := worker(t)
	for pass, want := range []bool{true, false} {
		renewed, err := nodeconfig.WriteFiles(hostfs.FS{Root: root}, c)
		if err != nil || renewed != want {
			t.Fatalf("pass %d: renewed %v, %v", pass, renewed, err)
		}
	}
	for path, mode := range map[string]os.FileMode{
		"/etc/kubernetes/ssl": os.ModeDir | 0o700, "/etc/kubernetes/ssl/kube-ca.pem": 0o600, "/etc/kubernetes/ssl/kube-node-key.pem": 0o600,
		"/etc/kubernetes/ssl/kubecfg-kube-node.yaml": 0o600, "/etc/kubernetes/cloud-config": 0o600,
	} {
		info, err := os.Stat(filepath.Join(root, path))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "/etc/kubernetes/ssl/kube-ca-key.pem")); err == nil {
		t.Error("an empty key was written")
	}
	c.Files[0].Contents = "Ym90aA=="
	if renewed, err := nodeconfig.WriteFiles(hostfs.FS{Root: root}, c); renewed || err != nil {
		t.Errorf("another file: renewed %v, %v", renewed, err)
	}
}

func TestHostile(t *testing.T) {
	process := func(s string) string { return `{"processes":{"a":{"name":"a","image":"i",` + s + `}}}` }
	cert := func(s string) string {
		b, _ := json.Marshal(s)
		return `{"certs":` + string(b) + `}`
	}
	many := strings.TrimSuffix(strings.Repeat(`"x",`, 600), ",")
	for _, tc := range []struct{ name, in, want string }{
		{"too large", strings.Repeat(" ", nodeconfig.MaxSize+1), "at most 4194304"},
		{"a page", "<html>secret</html>", "not JSON, at byte 1"},
		{"a list", `["secret"]`, "an object belongs"},
		{"text for a number", `{"nodeVersion":"secret"}`, "nodeVersion is a string"},
		{"negative version", `{"nodeVersion":-1}`, "nodeVersion is -1"},
		{"interval", `{"agentCheckInterval":99999999}`, "agentCheckInterval is 99999999"},
		{"name of a container", `{"processes":{"../a":{"image":"i"}}}`, "is not a valid name of a container"},
		{"two names", `{"processes":{"a":{"name":"b","image":"i"}}}`, `processes[a]: name is "b"`},
		{"no image", `{"processes":{"a":{"name":"a"}}}`, "processes[a]: image"},
		{"a flag for an image", `{"processes":{"a":{"image":"-x"}}}`, "processes[a]: image"},
		{"restart policy", process(`"restartPolicy":"sometimes"`), "restartPolicy"},
		{"env", process(`"env":["=secret"]`), "env[0]"},
		{"zero byte", process(`"args":["a\u0000b"]`), "args[0]"},
		{"many", process(`"args":[` + many + `]`), "args has 600 entries"},
		{"ports", process(`"publish":["secret"]`), "publish"},
		{"user", process(`"user":"a\nb"`), "user"},
		{"registry", process(`"imageRegistryAuthConfig":"secret"`), "imageRegistryAuthConfig is not base64"},
		{"file", `{"files":[{"name":"/a","contents":"*secret*"}]}`, "files[0] /a: contents"},
		{"file path", `{"files":[{"name":"/etc/../a","contents":""}]}`, "files[0]: name"},
		{"relative", `{"files":[{"name":"a","contents":""}]}`, "files[0]: name"},
		{"certs", cert(`{"x":["secret"]}`), "certs: a array where an object belongs"},
		{"certs are no JSON", cert(`secret`), "certs: is not JSON"},
		{"certificate path", cert(`{"x":{"keyPEM":"secret","keyPath":"./x"}}`), `certs["x"]: keyPath`},
		{"certificate without path", cert(`{"x":{"config":"secret"}}`), `certs["x"]: configPath`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := nodeconfig.Decode([]byte(tc.in))
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "node config: ") {
				t.Errorf("%v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error quotes: %v", err)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	b, err := os.ReadFile("testdata/worker.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := nodeconfig.Decode(b)
		if err != nil {
			return
		}
		if _, err := c.Contents(); err != nil {
			t.Errorf("taken, but later: %v", err)
		}
		nodeconfig.Plan(c, []nodeconfig.Container{{Name: "kubelet"}, {Name: "old-kubelet", Labels: map[string]string{nodeconfig.Label: "kubelet"}}}, true)
	})
}
