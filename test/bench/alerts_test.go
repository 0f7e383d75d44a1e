//go:build e2e && e2e_full

package main

// The rules for Prometheus with a real Prometheus: each fault is made on real servers and agents, its alert fires and clears. What a rule waits for, and
// how far it looks back, is shortened; what is too much is as it is delivered.

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/drover-project/drover/packaging/monitoring"
	"github.com/drover-project/drover/test/bed/process"
	"github.com/drover-project/drover/test/bed/sharedetcd"
)

const (
	// alertPatience is how long a fault may take until its alert fires, and clears.
	alertPatience = 3 * time.Minute
	alertAgents   = 5
)

// alarmed is a Prometheus that scrapes servers.
type alarmed struct {
	*testing.T
	*bench
	ctx context.Context
	url string
}

// newBench is a bench for a test.
func newBench(t *testing.T) (*bench, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	t.Cleanup(cancel)
	module, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(ctx, "make", "--no-print-directory", "-C", module, "build").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return &bench{module: module, dir: t.TempDir(), table: newTable(), say: t.Logf}, ctx
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err) // of a test
	}
	return value
}

// shortened are the rules with short times.
func shortened() string {
	text := regexp.MustCompile(`for: [1-9]\d*[mh]`).ReplaceAllString(monitoring.Rules, "for: 1s")
	text = regexp.MustCompile(`\[\d+m\]`).ReplaceAllString(text, "[20s]")
	return regexp.MustCompile(`offset \d+m`).ReplaceAllString(text, "offset 20s")
}

// watch starts a Prometheus that scrapes servers as the job drover, and other targets beside them.
func watch(ctx context.Context, t *testing.T, b *bench, name string, others []string, servers ...*server) *alarmed {
	t.Helper()
	dir := filepath.Join(b.dir, name)
	port := must(freePort(ctx))
	a := &alarmed{T: t, bench: b, ctx: ctx, url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	var jobs strings.Builder
	fmt.Fprintf(&jobs, "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\nrule_files: [rules.yaml]\nscrape_configs:\n")
	for i, s := range servers { // each has a token and an authority of its own; the rules tell servers apart by the instance
		file := func(what, content string) string {
			path := filepath.Join(dir, fmt.Sprint(what, i))
			must(0, os.MkdirAll(dir, 0o700))
			must(0, os.WriteFile(path, []byte(content), 0o600))
			return path
		}
		fmt.Fprintf(&jobs, "- {job_name: drover-%d, scheme: https, authorization: {credentials_file: %s}, tls_config: {ca_file: %s}, static_configs: [{targets: ['127.0.0.1:%d']}], relabel_configs: [{target_label: job, replacement: drover}]}\n",
			i, file("token", s.admin), file("ca", string(s.ca)), s.port)
	}
	for i, target := range others {
		fmt.Fprintf(&jobs, "- {job_name: other-%d, static_configs: [{targets: ['%s']}]}\n", i, target)
	}
	must(0, os.MkdirAll(dir, 0o700))
	must(0, os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(jobs.String()), 0o600))
	must(0, os.WriteFile(filepath.Join(dir, "rules.yaml"), []byte(shortened()), 0o600))
	prometheus := must(process.Start(ctx, process.Options{
		Path: "/usr/bin/prometheus", LogFile: filepath.Join(dir, "log"), ReadyURL: a.url + "/-/ready",
		Args: []string{"--config.file=" + filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"), fmt.Sprintf("--web.listen-address=127.0.0.1:%d", port)},
	}))
	t.Cleanup(func() { must(0, prometheus.Stop(context.WithoutCancel(ctx))) })
	return a
}

// firing are the alerts that fire now, sorted.
func (a *alarmed) firing() []string {
	a.Helper()
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	response := must(http.Get(a.url + "/api/v1/alerts"))
	defer response.Body.Close()
	must(0, json.NewDecoder(response.Body).Decode(&answer))
	var names []string
	for _, one := range answer.Data.Alerts {
		if one.State == "firing" {
			names = append(names, one.Labels["alertname"])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// fault makes a fault, and mends it when its alerts fire: these fire then, and none is left. Beside may fire, too.
func (a *alarmed) fault(name string, fires []string, beside []string, begin, mend func()) {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.ctx, 2*alertPatience)
	defer cancel()
	quiet := func(when string) {
		a.Helper()
		if err := until(ctx, alertPatience, "no alert "+when+" "+name, func() (bool, error) { return len(a.firing()) == 0, nil }); err != nil {
			a.Fatalf("%v; there fire %v", err, a.firing())
		}
	}
	quiet("before")
	began := time.Now()
	begin()
	seen := map[string]bool{}
	if err := until(ctx, alertPatience, strings.Join(fires, ", "), func() (bool, error) {
		for _, one := range a.firing() {
			seen[one] = true
		}
		return !slices.ContainsFunc(fires, func(one string) bool { return !seen[one] }), nil
	}); err != nil {
		response := must(http.Get(a.url + "/api/v1/targets"))
		defer response.Body.Close()
		a.Fatalf("%s: %v; there fired %v; the targets are %s", name, err, seen, must(io.ReadAll(response.Body)))
	}
	fired := time.Since(began)
	mend()
	quiet("after")
	for one := range seen {
		if !slices.Contains(fires, one) && !slices.Contains(beside, one) {
			a.Errorf("%s: %s fired, too", name, one)
		}
	}
	a.Logf("%s: %s fired after %.1f s, cleared %.1f s later", name, strings.Join(fires, ", "), fired.Seconds(), time.Since(began).Seconds()-fired.Seconds())
}

// stamped is the name of a scheduled backup that was made so long ago.
func stamped(ago time.Duration) string {
	return "drover-" + time.Now().UTC().Add(-ago).Format("20060102T150405Z") + ".tar"
}

func TestEachAlertOfAServerFires(t *testing.T) {
	b, ctx := newBench(t)
	dir, backups, trail := filepath.Join(b.dir, "server"), filepath.Join(b.dir, "backups"), filepath.Join(b.dir, "server", "data", "audit")
	must(0, must(b.launch(ctx, dir)).stop(ctx)) // makes its directory, in which the audit log gets a disk of its own
	must(0, syscall.Mount("tmpfs", trail, "tmpfs", 0, "size=256k,mode=0700"))
	defer func() { must(0, syscall.Unmount(trail, syscall.MNT_DETACH)) }()
	s := must(b.launch(ctx, dir, "--backup-dir", backups, "--backup-every", "1m"))
	defer func() { must(0, s.stop(ctx)) }()
	must(0, s.prepare(ctx, filepath.Join(b.module, "bin", "drover"), filepath.Join(dir, "data"), dir))
	drover := func(input string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, filepath.Join(b.module, "bin", "drover"), append([]string{"--data-dir", filepath.Join(dir, "data")}, args...)...)
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("drover %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	token := regexp.MustCompile(`CATTLE_TOKEN=(\w+)`).FindStringSubmatch(drover("", "fleets", "join-command", "edge"))
	if token == nil {
		t.Fatal("the join command has no token")
	}
	var agents [alertAgents]*agent
	var machines [alertAgents]machine
	for i := range agents {
		machines[i] = must(s.register(ctx, token[1], fmt.Sprint("alert-", i)))
		agents[i] = must(b.startAgent(ctx, s, machines[i], filepath.Join(b.dir, fmt.Sprint("agent-", i)), false))
		defer func() { must(0, agents[i].stop(ctx)) }()
	}
	plan := func(command string) {
		t.Helper()
		file := filepath.Join(b.dir, "plan.yaml")
		must(0, os.WriteFile(file, []byte("instructions:\n- {name: one, command: sh, args: [-c, "+strconv.Quote(command)+"]}\n"), 0o600))
		drover("", "machines", "plan", "--fleet", "edge", "-f", file, "--concurrency", "0", "--replace")
	}
	plan("true")
	a := watch(ctx, t, b, "prometheus", nil, s)
	nothing := func() {}

	a.fault("the server hangs", []string{"DroverDown", "DroverNoLeader"}, []string{"DroverMachinesAway"}, func() { must(0, s.process.Signal(syscall.SIGSTOP)) }, func() { must(0, s.process.Signal(syscall.SIGCONT)) })
	a.fault("plans fail", []string{"DroverPlansFail", "DroverMachinesFail"}, nil, func() { plan("exit 7") }, func() { plan("exit 0") })
	a.fault("two hosts of five lose their agents", []string{"DroverTunnelsLost", "DroverMachinesAway"}, nil, func() {
		for _, one := range agents[:2] {
			must(0, one.process.Kill())
		}
	}, func() {
		for i := range 2 {
			agents[i] = must(b.startAgent(ctx, s, machines[i], filepath.Join(b.dir, fmt.Sprint("agent-", i)), false))
		}
	})
	a.fault("the place of backups has gone", []string{"DroverBackupFailed"}, nil, func() {
		must(0, os.RemoveAll(backups))
		must(0, os.WriteFile(backups, nil, 0o600))
	}, func() { must(0, os.Remove(backups)) })
	a.fault("no snapshot is tried", []string{"DroverRehearsalOld"}, nil, func() { drover("", "clusters", "rehearsals", clusterName, "--every", "24h", "--fleet", "edge") },
		func() { drover("", "clusters", "rehearsals", clusterName, "--off") })
	a.fault("a cluster waits for a host that there is not", []string{"DroverClustersAway"}, []string{"DroverMachinesFail"}, func() {
		must(0, s.apply(ctx, strings.Replace(clusterYAML, "name: "+clusterName, "name: pinned, labels: {rke.cattle.io/init-node-machine-id: nobody}", 1)))
		for _, joining := range must(s.tokens(ctx)) {
			if joining != s.joining {
				must(s.register(ctx, joining, "pinned", workerRole, etcdRole, planeRole))
			}
		}
	}, func() { drover("", "clusters", "rm", "pinned", "--yes", "--force") })
	filler := filepath.Join(trail, "filler")
	a.fault("the disk of the audit log is full", []string{"DroverAuditLost"}, nil, func() {
		f := must(os.Create(filler))
		_, _ = f.Write(make([]byte, 1<<20)) // as far as it goes
		must(0, f.Close())
		for i := range 200 {
			_, _ = s.ask(ctx, http.MethodPut, "/v3/settings/ui-brand", "application/json", strings.NewReader(fmt.Sprintf(`{"value":"%d"}`, i)))
		}
	}, func() { must(0, os.Remove(filler)) })
	a.fault("a thousand clusters at once", []string{"DroverQueueGrows"}, nil, func() {
		for range 5 { // a look may miss one
			var documents strings.Builder
			for i := range 1000 {
				documents.WriteString("---\n" + strings.Replace(clusterYAML, "name: "+clusterName, fmt.Sprintf("name: crowd-%d-%d", time.Now().UnixNano(), i), 1))
			}
			must(0, s.apply(ctx, documents.String()))
		}
	}, nothing)
}

func TestAlertsOfSeveralServersFire(t *testing.T) {
	b, ctx := newBench(t)
	metrics := fmt.Sprintf("127.0.0.1:%d", must(freePort(ctx)))
	etcd, stop, err := sharedetcd.RunWith(filepath.Join(b.dir, "etcd"), 24<<20, "http://"+metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	way := newCut(t, strings.TrimPrefix(etcd, "http://"))
	var servers []*server
	for i := range 2 {
		dir := filepath.Join(b.dir, fmt.Sprint("server-", i))
		s := must(b.launch(ctx, dir, "--etcd-endpoints", "http://"+way.address, "--encryption-key-file", filepath.Join(b.dir, "encryption.key")))
		defer func() { must(0, s.stop(ctx)) }()
		must(0, s.trust(filepath.Join(dir, "data")))
		servers = append(servers, s)
	}
	a := watch(ctx, t, b, "prometheus", []string{metrics}, servers...)
	// The pin keeps the cluster from giving its agent a plan, which would be carried out on this machine.
	kept := filepath.Join(b.dir, "k3s")
	a.fault("a certificate ends in five days", []string{"DroverCertificateEnds"}, []string{"DroverClustersAway", "DroverMachinesFail"}, func() {
		ending(filepath.Join(kept, "agent", "serving-kubelet.crt"), time.Now().AddDate(0, 0, 5))
		must(0, servers[0].apply(ctx, "{apiVersion: provisioning.cattle.io/v1, kind: Cluster, metadata: {name: "+clusterName+", labels: {rke.cattle.io/init-node-machine-id: nobody}}, "+
			"spec: {kubernetesVersion: v1.34.4+k3s1, rkeConfig: {dataDirectories: {k8sDistro: "+kept+"}}}}"))
		m := must(servers[0].register(ctx, must(servers[0].tokens(ctx))[0], "ending", workerRole, etcdRole, planeRole))
		agent := must(b.startAgent(ctx, servers[0], m, filepath.Join(b.dir, "agent"), false))
		t.Cleanup(func() { must(0, agent.stop(ctx)) })
	}, func() {
		out, err := exec.CommandContext(ctx, filepath.Join(b.module, "bin", "drover"), "--data-dir", filepath.Join(b.dir, "server-0", "data"), "clusters", "rm", clusterName, "--yes", "--force").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
	a.fault("etcd is out of reach", []string{"DroverNoLeader"}, []string{"DroverDown", "DroverWorkerFails"}, way.close, way.open)
	store := must(clientv3.New(clientv3.Config{Endpoints: []string{etcd}, Logger: zap.NewNop()}))
	defer store.Close()
	a.fault("the store is nearly full", []string{"DroverStoreFull"}, nil, func() {
		for i := range 20 {
			must(store.Put(ctx, fmt.Sprint("filler-", i), strings.Repeat("x", 1<<20)))
		}
	}, func() {
		gone := must(store.Delete(ctx, "filler-", clientv3.WithPrefix()))
		must(store.Compact(ctx, gone.Header.Revision, clientv3.WithCompactPhysical()))
		must(store.Defragment(ctx, etcd))
	})
}

func TestAlertsOfOldBackupsAndFailingWorkersFire(t *testing.T) {
	b, ctx := newBench(t)
	dir, backups := filepath.Join(b.dir, "server"), filepath.Join(b.dir, "backups")
	var mended atomic.Bool
	data := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !mended.Load() {
			http.Error(w, "gone", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"date": "2027-01-15", "recommended": {"k3s": "v1.34.6+k3s1"}, "sets": {"base": {"serverArgs": {"disable": {"type": "array"}}, "agentArgs": {"kubelet-arg": {"type": "array"}}}}, "releases": {"k3s": {"base": ["v1.34.6+k3s1"]}}}`)
	}))
	defer data.Close()
	must(0, os.MkdirAll(backups, 0o700))
	old := filepath.Join(backups, stamped(72*time.Hour))
	must(0, os.WriteFile(old, []byte("a backup"), 0o600))
	s := must(b.launch(ctx, dir, "--backup-dir", backups, "--backup-every", "8000h", "--version-data", data.URL+"/data.json"))
	defer func() { must(0, s.stop(ctx)) }()
	must(0, s.trust(filepath.Join(dir, "data")))
	a := watch(ctx, t, b, "prometheus", nil, s)
	both := []string{"DroverBackupOld", "DroverWorkerFails"}
	if err := until(ctx, alertPatience, strings.Join(both, ", "), func() (bool, error) { return slices.Equal(a.firing(), both), nil }); err != nil {
		t.Fatalf("%v; there fire %v", err, a.firing())
	}
	mended.Store(true)
	must(0, os.Rename(old, filepath.Join(backups, stamped(time.Hour))))
	if err := until(ctx, alertPatience, "no alert", func() (bool, error) { return len(a.firing()) == 0, nil }); err != nil {
		t.Fatalf("%v; there fire %v", err, a.firing())
	}
}

// ending writes a certificate that ends some time.
func ending(file string, end time.Time) {
	public, private, err := ed25519.GenerateKey(nil)
	must(0, err)
	made := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.AddDate(-1, 0, 0), NotAfter: end}
	der := must(x509.CreateCertificate(nil, made, made, public, private))
	must(0, os.MkdirAll(filepath.Dir(file), 0o755))
	must(0, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
}

// cut is a way to an address that can be closed.
type cut struct {
	address string
	to      string
	closed  atomic.Bool
	mu      sync.Mutex
	conns   []net.Conn
}

func newCut(t *testing.T, to string) *cut {
	t.Helper()
	listener := must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))
	c := &cut{address: listener.Addr().String(), to: to}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				group.Go(func() { c.pass(conn) })
			}
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		c.close()
		group.Wait()
	})
	return c
}

func (c *cut) pass(conn net.Conn) {
	defer conn.Close()
	if c.closed.Load() {
		return
	}
	other, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer other.Close()
	c.mu.Lock()
	c.conns = append(c.conns, conn, other)
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(other, conn)
		_ = other.Close()
		close(done)
	}()
	_, _ = io.Copy(conn, other)
	_ = conn.Close()
	<-done
}

func (c *cut) close() {
	c.closed.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

func (c *cut) open() { c.closed.Store(false) }
