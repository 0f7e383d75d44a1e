package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/test/bed/process"
)

type options struct {
	drover, dir string
	memory      int64
	each        time.Duration
}

// Limits that no attack may push the server over.
const (
	// mostAfter is what it may hold a while after an attack beyond what it held before all.
	mostAfter = 160 << 20 // bytes
	// slowest is how long the well-behaved client may wait during an attack, 99 times of 100.
	slowest = 10 * time.Second
	// settles is how long the server has to let go of what an attack left behind. Go collects what
	// nobody asks for any more after two minutes at the latest.
	settles = 150 * time.Second
	// leftOpen is how many connections may be left then.
	leftOpen = 20
)

// target is the server that is attacked.
type target struct {
	process *process.Process
	address string
	url     string
	roots   *x509.CertPool
	admin   string // token
	joining string // registration token
	http    *http.Client
	pid     int
}

// run starts a server and does everything to it. The report is as far as it came.
func run(ctx context.Context, o options) (report, error) {
	r := report{}
	if o.dir == "" {
		dir, err := os.MkdirTemp("", "drover-abuse-")
		if err != nil {
			return r, err
		}
		defer os.RemoveAll(dir)
		o.dir = dir
	}
	if o.drover == "" {
		o.drover = filepath.Join(o.dir, "drover")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", o.drover, "github.com/drover-project/drover/cmd/drover").CombinedOutput(); err != nil {
			return r, fmt.Errorf("build the server: %w\n%s", err, out)
		}
	}
	t, err := start(ctx, o)
	if err != nil {
		return r, err
	}
	fence, err := confine(t.pid, o.memory)
	r.fence = fence.String()
	defer fence.remove()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		_ = t.process.Stop(ctx)
	}()
	if err != nil {
		return r, err
	}
	watching, unwatch := context.WithCancel(ctx)
	defer unwatch()
	fence.watch(watching, t)
	return r, t.all(ctx, o, &r)
}

func (t *target) all(ctx context.Context, o options, r *report) error {
	base, err := t.measure(ctx, 2*time.Second)
	if err != nil {
		return fmt.Errorf("before all attacks: %w", err)
	}
	var broken []error
	for _, a := range attacks() {
		row := row{name: a.name, before: base}
		attack, cancel := context.WithTimeout(ctx, o.each)
		done := make(chan string, 1)
		go func() { done <- a.do(attack, t) }()
		row.during, err = t.measure(ctx, o.each-time.Second)
		cancel()
		row.note = <-done
		if err == nil {
			row.after, err = t.settle(ctx, base)
		}
		r.rows = append(r.rows, row)
		if err != nil {
			return errors.Join(append(broken, fmt.Errorf("%s: %w", a.name, err))...)
		}
		broken = append(broken, row.broken()...)
	}
	return errors.Join(broken...)
}

// settle waits until the server has let go, or may no longer wait, and measures.
func (t *target) settle(ctx context.Context, base sample) (sample, error) {
	for end := time.Now().Add(settles); ; {
		s, err := t.measure(ctx, 2*time.Second)
		if err != nil || time.Now().After(end) || s.connections <= base.connections+leftOpen && s.resident <= base.resident+mostAfter {
			return s, err
		}
	}
}

func start(ctx context.Context, o options) (*target, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	l.Close()
	t := &target{address: address, url: "https://" + address}
	data := filepath.Join(o.dir, "data")
	begin, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	t.process, err = process.Start(begin, process.Options{
		Path: o.drover, LogFile: filepath.Join(o.dir, "server.log"), ReadyURL: t.url + "/ping",
		Args: []string{"server", "--data-dir", data, "--listen", address, "--server-url", t.url},
		Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, // whether it answers; whom to trust is only known once it does
		}}},
	})
	if err != nil {
		return nil, err
	}
	t.pid = t.process.PID()
	ca, err := os.ReadFile(filepath.Join(data, "tls", "ca.crt"))
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(filepath.Join(data, "admin-token"))
	if err != nil {
		return nil, err
	}
	t.admin, t.roots = strings.TrimSpace(string(token)), x509.NewCertPool()
	t.roots.AppendCertsFromPEM(ca)
	t.http = t.client(64)
	return t, t.prepare(ctx)
}

// client is a client with so many connections at the most.
func (t *target) client(connections int) *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: t.roots}, MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections,
	}}
}

// prepare makes the cluster that machines join.
func (t *target) prepare(ctx context.Context) error {
	const cluster = `{"apiVersion":"provisioning.cattle.io/v1","kind":"Cluster","metadata":{"name":"abuse"},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{}}}`
	if status, body, err := t.ask(ctx, t.http, http.MethodPost, "/v1/provisioning.cattle.io.clusters", t.admin, "application/json", cluster); err != nil || status/100 != 2 {
		return fmt.Errorf("make a cluster: %d %.300s %w", status, body, err)
	}
	status, body, err := t.ask(ctx, t.http, http.MethodGet, "/v3/clusterRegistrationTokens", t.admin, "", "")
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("read the registration token: %d %.300s %w", status, body, err)
	}
	_, after, _ := strings.Cut(body, `"token":"`)
	t.joining, _, _ = strings.Cut(after, `"`)
	if t.joining == "" {
		return fmt.Errorf("there is no registration token in %.500s", body)
	}
	return nil
}

// row is one attack and what it did.
type row struct {
	name                  string
	before, during, after sample
	note                  string
}

func (r row) broken() (all []error) {
	if r.after.resident > r.before.resident+mostAfter {
		all = append(all, fmt.Errorf("%s: %d MiB are resident after it, %d before", r.name, r.after.resident>>20, r.before.resident>>20))
	}
	if r.after.connections > r.before.connections+leftOpen {
		all = append(all, fmt.Errorf("%s: %d connections are left open", r.name, r.after.connections))
	}
	if r.during.p99 > slowest {
		all = append(all, fmt.Errorf("%s: the well-behaved client waits %s", r.name, r.during.p99))
	}
	if strings.HasPrefix(r.note, "!") {
		all = append(all, fmt.Errorf("%s: %s", r.name, r.note[1:]))
	}
	return all
}

// report is the table.
type report struct {
	fence string
	rows  []row
}

func (r report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "memory: %s\n\n| attack | resident MiB before / peak during / after | connections before / during / after | well-behaved client, median and p99 ms before | during | after | seen |\n|---|---|---|---|---|---|---|\n", r.fence)
	ms := func(s sample) string {
		return strconv.FormatFloat(float64(s.p50.Microseconds())/1000, 'f', 1, 64) + " / " + strconv.FormatFloat(float64(s.p99.Microseconds())/1000, 'f', 1, 64)
	}
	for _, row := range r.rows {
		fmt.Fprintf(&b, "| %s | %d / %d / %d | %d / %d / %d | %s | %s | %s | %s |\n", row.name,
			row.before.resident>>20, row.during.resident>>20, row.after.resident>>20,
			row.before.connections, row.during.connections, row.after.connections,
			ms(row.before), ms(row.during), ms(row.after), row.note)
	}
	return b.String()
}
