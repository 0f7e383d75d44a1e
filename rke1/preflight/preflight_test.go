package preflight_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/preflight"
	"github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

const yml = `
kubernetes_version: v1.30.5-rancher1-1
network: {plugin: canal}
nodes:
- {address: 10.0.0.1, user: rke, role: [etcd, controlplane, worker]}
- {address: 10.0.0.2, user: rke, role: [worker]}
`

// yard is two new hosts, where a program may listen already.
type yard struct {
	preflight.Check
	docker map[string]*dockerstandin.Engine
	open   map[string]bool // HOST PORT that take a connection

	mu   sync.Mutex
	said []string
	ran  []string // HOST NAME of containers that ended
}

func newYard(t *testing.T) *yard {
	t.Helper()
	v, err := versions.Load(t.Context(), "", versions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Parse(strictyaml.Source{File: "cluster.yml"}, []byte(yml))
	if err != nil {
		t.Fatal(err)
	}
	c := config.WithDefaults(file.Cluster, config.Versions{Default: v.Default(), Images: v.Images})
	y := &yard{docker: map[string]*dockerstandin.Engine{}, open: map[string]bool{}}
	facts := map[string]desired.Facts{}
	for _, n := range c.Nodes {
		e := dockerstandin.New(t)
		e.AddImage(c.SystemImages.Alpine, dockerstandin.Image{})
		y.docker[n.Address] = e
		facts[n.Address] = desired.Facts{OSType: "linux", DockerRootDir: "/var/lib/docker"}
		y.answer(n.Address, desired.MountChecker, 0, "")
		y.answer(n.Address, desired.PortChecker, 0, "")
	}
	plan, err := desired.New(desired.Input{Config: &c, Versions: v, Hosts: facts})
	if err != nil {
		t.Fatal(err)
	}
	y.Check = preflight.Check{Config: &c, Plan: plan, Warn: func(text string) { y.say("WARN " + text) },
		Line: func(part, format string, _ ...any) { y.say(part + " " + format) }, Pause: func(context.Context) error { return nil }}
	for _, n := range c.Nodes {
		y.Hosts = append(y.Hosts, y.host(t, n))
	}
	return y
}

func (y *yard) host(t *testing.T, n config.Node) *preflight.Host {
	t.Helper()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if network == "unix" {
			return new(net.Dialer).DialContext(ctx, network, address)
		}
		if _, port, _ := net.SplitHostPort(address); y.open[n.Address+" "+port] {
			here, there := net.Pipe()
			there.Close()
			return here, nil
		}
		return nil, errors.New("connection refused")
	}
	opened, err := onhost.Open(t.Context(), n.Address, y.docker[n.Address].Socket, dial, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	w, err := y.Plan.Host(n.Address)
	if err != nil {
		t.Fatal(err)
	}
	return &preflight.Host{Host: opened, Node: n, Wanted: w, New: true}
}

func (y *yard) say(text string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.said = append(y.said, text)
}

// answer is what each container of a name gives on a host; a script that holds one of only is answered, others give nothing.
func (y *yard) answer(host, name string, code int, output string, only ...string) {
	y.docker[host].OnStart(name, func(c dockerstandin.Container) (int, string) {
		y.mu.Lock()
		y.ran = append(y.ran, host+" "+name)
		y.mu.Unlock()
		script := strings.Join(c.Config.Entrypoint, " ")
		if len(only) > 0 && !slices.ContainsFunc(only, func(part string) bool { return strings.Contains(script, part) }) {
			return 0, ""
		}
		return code, output
	})
}

func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*yard)
		want    []string // parts of the error; none is success
		warns   string
	}{
		"all is well": {func(*yard) {}, nil, ""},
		"mounts are not shared": {
			func(y *yard) {
				y.docker["10.0.0.2"].Fail(http.MethodPost, "/start", 500, "path /var/lib/kubelet is mounted on / but it is not a shared mount")
			},
			[]string{"a kubelet cannot run on host 10.0.0.2", "make-rshared", "is not a shared mount"}, "",
		},
		"a port is taken": {
			func(y *yard) {
				y.open["10.0.0.1 6443"] = true
				y.answer("10.0.0.1", desired.PortChecker, 0, "tcp 0 0 :::6443 :::* LISTEN 812/k3s\n", "netstat -lntp")
			},
			[]string{"port 6443 of host 10.0.0.1 is taken: tcp 0 0 :::6443 :::* LISTEN 812/k3s"}, "",
		},
		"a port is taken by nobody knows whom": {
			func(y *yard) { y.open["10.0.0.2 10250"] = true },
			[]string{"port 10250 of host 10.0.0.2 is taken: by a process that the host does not name"}, "",
		},
		"a port of another role is taken": {func(y *yard) { y.open["10.0.0.2 6443"] = true }, nil, ""},
		"containerd has cri-dockerd's port": {
			func(y *yard) {
				y.open["10.0.0.2 10010"] = true
				y.answer("10.0.0.2", desired.PortChecker, 0, "tcp 0 0 127.0.0.1:10010 LISTEN 700/containerd\n", "netstat -lntp")
			},
			[]string{"port 10010 of host 10.0.0.2 is taken", "700/containerd", "cri_dockerd_stream_server_port"}, "",
		},
		"a process has the overlay's port": {
			func(y *yard) {
				y.answer("10.0.0.2", desired.PortChecker, 0, "taken\nudp 0 0 0.0.0.0:8472 0.0.0.0:* 99/vpnd\n", "/proc/net/udp")
			},
			[]string{"port 8472/udp of host 10.0.0.2 is taken: udp 0 0 0.0.0.0:8472 0.0.0.0:* 99/vpnd", "canal's port in network.options"}, "",
		},
		"another cluster's device has it": {
			func(y *yard) { y.answer("10.0.0.2", desired.PortChecker, 0, "taken\n", "/proc/net/udp") },
			[]string{"port 8472/udp of host 10.0.0.2 is taken: by a network device of the kernel"}, "",
		},
		"a firewall": {
			func(y *yard) { y.answer("10.0.0.2", desired.PortChecker, 0, "10.0.0.1:6443\n", "-z") },
			[]string{"Host [10.0.0.2] is not able to connect to the following ports: [10.0.0.1:6443]"}, "",
		},
		"a firewall for datagrams": {
			func(y *yard) { y.answer("10.0.0.1", desired.PortChecker, 0, "10.0.0.2:8472/udp\n", "drover") },
			nil, "WARN host [10.0.0.1] gets no answer from 10.0.0.2:8472/udp",
		},
		"a listener cannot start": {
			func(y *yard) {
				y.docker["10.0.0.2"].Fail(http.MethodPost, "/containers/create?name=rke-worker-port-listener", 500, "no bridge")
			},
			[]string{"check the ports of host 10.0.0.2", "no bridge"}, "",
		},
		"nobody looks at ports": {func(y *yard) { y.NoPorts = true; y.open["10.0.0.1 6443"] = true }, nil, ""},
		"hosts that are not new": {
			func(y *yard) {
				for _, h := range y.Hosts {
					h.New = false
				}
				y.open["10.0.0.1 6443"] = true
			},
			nil, "",
		},
		"what runs there is the cluster's": {
			func(y *yard) {
				y.open["10.0.0.1 6443"], y.open["10.0.0.2 10250"], y.open["10.0.0.2 10010"] = true, true, true
				for _, name := range []string{desired.KubeAPIServer, desired.Kubelet} {
					y.Hosts[0].Found = append(y.Hosts[0].Found, nodeconfig.Container{Name: name, Running: true})
				}
				y.Hosts[1].Found = []nodeconfig.Container{{Name: desired.Kubelet, Running: true}}
			},
			nil, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			c.prepare(y)
			err := y.Run(t.Context())
			if (err != nil) != (len(c.want) > 0) {
				t.Errorf("got %v", err)
			}
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %q", err, want)
				}
			}
			warned := slices.ContainsFunc(y.said, func(text string) bool { return strings.HasPrefix(text, "WARN") })
			if warned != (c.warns != "") || warned && !slices.ContainsFunc(y.said, func(text string) bool { return strings.HasPrefix(text, c.warns) }) {
				t.Errorf("said: %q", y.said)
			}
			for address, e := range y.docker {
				if left := e.Containers(); len(left) > 0 {
					t.Errorf("left on host %s: %v", address, slices.Sorted(maps.Keys(left)))
				}
			}
		})
	}
}

// Each new host is asked for a datagram by each other one, and its mounts are those of the kubelet that comes.
func TestWhatIsStarted(t *testing.T) {
	y := newYard(t)
	if err := y.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var mounts, udp string
	for _, r := range y.docker["10.0.0.2"].Requests() {
		if strings.Contains(r.Path, "create?name="+desired.MountChecker) {
			mounts = r.Body
		}
		if strings.Contains(r.Path, "create?name="+desired.OverlayPortListener) {
			udp = r.Body
		}
	}
	for _, bind := range []string{"/var/lib/kubelet:/var/lib/kubelet:shared", "/var/lib/rancher:/var/lib/rancher:shared", "/var/lib/docker:/var/lib/docker:rw,rslave"} {
		if !strings.Contains(mounts, bind) {
			t.Errorf("bind %s is not tried: %s", bind, mounts)
		}
	}
	if strings.Contains(mounts, "/host/dev") || !strings.Contains(udp, `"1337/udp":[{"HostIp":"0.0.0.0","HostPort":"8472"}]`) {
		t.Errorf("%s\n%s", mounts, udp)
	}
	// Each host: mounts, the overlay's port, connections, datagrams.
	slices.Sort(y.ran)
	if want := 4 * 2; len(y.ran) != want {
		t.Errorf("%d containers ran, want %d: %q", len(y.ran), want, y.ran)
	}
}
