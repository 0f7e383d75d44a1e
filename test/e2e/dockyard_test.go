//go:build e2e

package e2e

// The bed of Docker hosts: two servers on one etcd, which hosts know by one name, and hosts with Docker that have
// the node agent's image.

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/dns"
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/test/bed/process"
	"github.com/drover-project/drover/test/bed/sharedetcd"
	"github.com/drover-project/drover/test/journey"
)

const (
	serverName = "drover.bed.test"
	agentImage = "drover/rancher-agent:e2e"
	agentName  = "agent" // of the container
	dockHosts  = 3
)

// dockyard is what the steps of one run share.
type dockyard struct {
	*testing.T
	ctx     context.Context
	dir     string
	module  string
	bin     string
	bed     *bed.Bed
	names   *dns.Server
	etcd    string // its URL
	url     string // of the servers, by their name
	servers [2]*replica
	hosts   []*host.Host
	archive string // of the agent's image
}

// replica is one of the servers.
type replica struct {
	letter, dataDir string
	ip              netip.Addr
	options         process.Options
	process         *process.Process
}

func startDockyard(ctx context.Context, t *testing.T) *dockyard {
	t.Helper()
	module, err := filepath.Abs("../..")
	must(t, err)
	d := &dockyard{T: t, ctx: ctx, dir: t.TempDir(), module: module}
	d.etcd = sharedetcd.Start(t) // first, so that it ends last
	d.bed, err = bed.Start(ctx, bed.Options{Dir: d.dir, CacheDir: os.Getenv("DROVER_CACHE"), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			d.evidence()
		}
		if err := d.bed.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	d.bin, err = d.bed.Build(ctx, "github.com/drover-project/drover/cmd/drover", "github.com/drover-project/drover/cmd/rancher-agent")
	must(t, err)
	gateway := d.bed.Engine.Gateway()
	d.names, err = dns.Start(ctx, gateway)
	must(t, err)
	t.Cleanup(func() { must(t, d.names.Close()) })
	d.place(gateway)
	for _, r := range d.servers {
		d.start(r)
	}
	return d
}

// place says where the servers are: on one port of two addresses.
func (d *dockyard) place(gateway netip.Addr) {
	d.Helper()
	second, err := d.bed.Engine.AddGateway(d.ctx)
	must(d.T, err)
	address, err := d.bed.FreeAddress(d.ctx)
	must(d.T, err)
	_, port, err := net.SplitHostPort(address)
	must(d.T, err)
	d.url = "https://" + net.JoinHostPort(serverName, port)
	keyFile := filepath.Join(d.dir, "encryption.key") // the first server makes it
	// Readiness only: who answers on an address that this process just chose is not in doubt.
	ready := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for i, ip := range []netip.Addr{gateway, second} {
		r := &replica{letter: string(rune('A' + i)), ip: ip}
		r.dataDir = filepath.Join(d.dir, "server-"+r.letter)
		own := net.JoinHostPort(ip.String(), port)
		r.options = process.Options{
			Path: filepath.Join(d.bin, "drover"), LogFile: filepath.Join(d.dir, "logs", "server-"+r.letter+".log"),
			Args: []string{"server", "--data-dir", r.dataDir, "--listen", own, "--server-url", d.url, "--peer-url", "https://" + own,
				"--etcd-endpoints", d.etcd, "--encryption-key-file", keyFile},
			ReadyURL: "https://" + own + "/ping", Client: ready,
		}
		d.servers[i] = r
	}
}

func (d *dockyard) start(r *replica) {
	d.Helper()
	var err error
	r.process, err = d.bed.Run(d.ctx, r.options)
	must(d.T, err)
}

// kill ends a server as a power cut would.
func (d *dockyard) kill(r *replica) {
	d.Helper()
	must(d.T, r.process.Kill())
}

// lead makes the servers' name lead to these, the first one first.
func (d *dockyard) lead(servers ...*replica) {
	var addresses []netip.Addr
	for _, r := range servers {
		addresses = append(addresses, r.ip)
	}
	d.names.Set(serverName, addresses...)
}

// drover runs a command of the command line against one of the servers, as root on its machine does.
func (d *dockyard) drover(r *replica, args ...string) string {
	d.Helper()
	out, err := d.tryDrover(d.ctx, r, args...)
	must(d.T, err)
	return out
}

func (d *dockyard) tryDrover(ctx context.Context, r *replica, args ...string) (string, error) {
	cmd := d.command(ctx, r, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("server %s: drover %s: %w: %s", r.letter, strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	return out.String(), nil
}

func (d *dockyard) command(ctx context.Context, r *replica, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "drover"), args...)
	cmd.Env = append(os.Environ(), "DROVER_DATA_DIR="+r.dataDir, "DROVER_SERVER=", "DROVER_TOKEN=", "DROVER_CONFIG="+filepath.Join(d.dir, "contexts.yaml"))
	return cmd
}

// machines are the hosts as a server shows them, by name.
func (d *dockyard) machines(ctx context.Context, r *replica, cluster string) (map[string]journey.Machine, error) {
	out, err := d.tryDrover(ctx, r, "machines", "ls", "--cluster", cluster, "-o", "json")
	if err != nil {
		return nil, err
	}
	var list []journey.Machine
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("read the list of machines: %w", err)
	}
	all := map[string]journey.Machine{}
	for _, m := range list {
		all[m.Name] = m
	}
	return all, nil
}

// await waits until a server shows the hosts in a state, and says how long that took.
func (d *dockyard) await(r *replica, state string, limit time.Duration, names ...string) time.Duration {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, limit)
	defer cancel()
	began := time.Now()
	must(d.T, bed.Await(ctx, fmt.Sprintf("%s to be %s at server %s", strings.Join(names, ", "), state, r.letter), 200*time.Millisecond, func(ctx context.Context) error {
		all, err := d.machines(ctx, r, dockyardCluster)
		if err != nil {
			return err
		}
		for _, name := range names {
			if m, ok := all[name]; !ok {
				return fmt.Errorf("%s has not joined", name)
			} else if m.DroverState != state {
				return fmt.Errorf("%s is %q: %s", name, m.DroverState, m.Cause)
			}
		}
		return nil
	}))
	return time.Since(began)
}

// tunnel is one line of `drover tunnels ls`.
type tunnelLine struct {
	Subject string `json:"subject"`
	Host    string `json:"host"`
	Server  string `json:"server"`
	Remote  string `json:"remote"`
}

// ends says at which server each host's tunnel ends, by the word of one of them.
func (d *dockyard) ends(ctx context.Context, r *replica) (map[string][]string, error) {
	out, err := d.tryDrover(ctx, r, "tunnels", "ls", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list []tunnelLine
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("read the list of tunnels: %w", err)
	}
	all := map[string][]string{}
	for _, one := range list {
		letter := one.Server
		for _, s := range d.servers {
			if strings.Contains(one.Server, s.ip.String()+":") {
				letter = s.letter
			}
		}
		all[one.Host] = append(all[one.Host], letter)
	}
	return all, nil
}

// awaitEnds waits until each host has one tunnel, at the server of the letter.
func (d *dockyard) awaitEnds(r *replica, limit time.Duration, want map[string]string) time.Duration {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, limit)
	defer cancel()
	began := time.Now()
	must(d.T, bed.Await(ctx, fmt.Sprintf("tunnels as in %v, as server %s sees them", want, r.letter), 300*time.Millisecond, func(ctx context.Context) error {
		all, err := d.ends(ctx, r)
		if err != nil {
			return err
		}
		for name, letter := range want {
			if !slices.Equal(all[name], []string{letter}) {
				return fmt.Errorf("tunnels: %v", all)
			}
		}
		return nil
	}))
	return time.Since(began)
}

// image writes the archive of the agent's image with the program of `make images`.
func (d *dockyard) image() string {
	d.Helper()
	program := filepath.Join(d.bin, "rancher-agent")
	must(d.T, os.Rename(program, program+"-"+runtime.GOARCH))
	name, version, _ := strings.Cut(agentImage, ":")
	cmd := exec.CommandContext(d.ctx, "go", "run", "./packaging/images", "-version", version, "-bin", d.bin, "-out", d.bin, "rancher-agent")
	cmd.Dir = d.module
	if out, err := cmd.CombinedOutput(); err != nil {
		d.Fatalf("make the image %s: %v: %s", name, err, out)
	}
	return filepath.Join(d.bin, "image-rancher-agent-"+runtime.GOARCH+".tar")
}

// startHosts starts the hosts, which ask the bed's name service, and loads the agent's image into each.
func (d *dockyard) startHosts() {
	d.Helper()
	d.archive = d.image()
	d.hosts = make([]*host.Host, dockHosts)
	errs := make([]error, dockHosts)
	// The first host makes the image of hosts where there is none; then all at once.
	d.hosts[0], errs[0] = d.startHost(1)
	must(d.T, errs[0])
	var starting sync.WaitGroup
	for i := 1; i < dockHosts; i++ {
		starting.Go(func() { d.hosts[i], errs[i] = d.startHost(i + 1) })
	}
	starting.Wait()
	must(d.T, errors.Join(errs...))
}

func (d *dockyard) startHost(number int) (*host.Host, error) {
	h, err := d.bed.DockerHost(d.ctx, host.Options{Name: fmt.Sprintf("dock-%d", number), DNS: d.bed.Engine.Gateway().String()})
	if err != nil {
		return nil, err
	}
	if err := h.LoadImage(d.ctx, d.archive); err != nil {
		return h, err
	}
	return h, d.workload(h)
}

// workload gives a host a container of its own that no agent started.
func (d *dockyard) workload(h *host.Host) error {
	busybox, err := os.Open("/bin/busybox")
	if err != nil {
		return err
	}
	defer busybox.Close()
	const script = `mkdir -p /tmp/root/bin /tmp/root/www && cat >/tmp/root/bin/busybox && chmod 755 /tmp/root/bin/busybox
echo healthy >/tmp/root/www/healthz
tar -C /tmp/root -c . | docker import - tiny:1 >/dev/null
docker run -d --restart=unless-stopped --name cargo-$(hostname) --net=host tiny:1 /bin/busybox sh -c 'echo cargo of '$(hostname)'; exec /bin/busybox httpd -f -p 127.0.0.1:10256 -h /www' >/dev/null`
	_, err = h.Run(d.ctx, busybox, "sh", "-euc", script)
	return err
}

// evidence prints what a person would look at first.
func (d *dockyard) evidence() {
	for _, r := range d.servers {
		if r == nil {
			continue
		}
		if log, err := os.ReadFile(r.options.LogFile); err == nil {
			d.Logf("the log of server %s:\n%s", r.letter, tail(string(log), 60))
		}
	}
	ctx := context.WithoutCancel(d.ctx)
	for _, h := range d.hosts {
		if h == nil {
			continue
		}
		out, err := h.Sh(ctx, "docker ps -a; docker logs --tail 40 "+agentName+" 2>&1")
		d.Logf("host %s: %v\n%s", h.Name(), err, out)
	}
	if r := d.servers[0]; r != nil {
		out, err := d.tryDrover(ctx, r, "machines", "ls")
		d.Logf("%v\n%s", err, out)
	}
}
