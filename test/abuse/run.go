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
	only        string // the attacks with this in their names; empty is all
	lie         string // the liars with this in the names of their lies; empty is all
}

// limits of one attack.
type limits struct {
	// lasts is how long it goes on.
	lasts time.Duration
	// during and after are what the server may hold meanwhile and a while after, in bytes beyond what it held before all.
	during, after int64
	// median is how long the well-behaved client may wait meanwhile, one time of two, and slowest 99 times of 100.
	median, slowest time.Duration
}

// Limits that no attack may push the server over.
const (
	// mostAfter is what it may hold a while after an attack beyond what it held before all.
	mostAfter = 160 << 20 // bytes
	// median is how long the well-behaved client may wait during an attack, one time of two, whatever else the machine does; slowest
	// is for 99 times of 100, beside other tests on the same two processors. On a quiet machine these stay below 100 ms as well.
	median, slowest = 100 * time.Millisecond, time.Second
	// settles is how long the server has to let go of what an attack left behind. Go collects what
	// no client asks for any more after two minutes at the latest.
	settles = 150 * time.Second
	// leftOpen is how many connections may be left then.
	leftOpen = 20
)

// target is the server that is attacked.
type target struct {
	options options
	fence   fence
	process *process.Process
	address string
	url     string
	ca      string // in PEM
	roots   *x509.CertPool
	admin   string // token
	joining string // registration token
	http    *http.Client
	pid     int
}

// run starts a server and does everything to it. The report is as far as it came.
func run(ctx context.Context, o options, attacks []attack) (report, error) {
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
		if err := build(ctx, o.drover, "cmd/drover"); err != nil {
			return r, err
		}
	}
	if err := build(ctx, filepath.Join(o.dir, "abuse"), "test/abuse"); err != nil {
		return r, err
	}
	t, err := start(ctx, o)
	if t != nil {
		defer func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
			defer cancel()
			_ = t.process.Stop(ctx)
			t.fence.remove()
		}()
	}
	if err != nil {
		return r, err
	}
	r.fence = t.fence.String()
	return r, t.all(ctx, attacks, &r)
}

// build compiles a program of the module.
func build(ctx context.Context, to, program string) error {
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", to, "github.com/drover-project/drover/"+program).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return nil
}

func (t *target) all(ctx context.Context, attacks []attack, r *report) error {
	base, err := t.measure(ctx, 2*time.Second)
	if err != nil {
		return fmt.Errorf("before all attacks: %w", err)
	}
	var broken []error
	for _, a := range attacks {
		if !strings.Contains(a.name, t.options.only) {
			continue
		}
		row := row{name: a.name, limits: a.limits, before: base}
		if a.first != nil {
			if err := a.first(ctx, t); err != nil {
				return errors.Join(append(broken, fmt.Errorf("%s: %w", a.name, err))...)
			}
		}
		attack, cancel := context.WithTimeout(ctx, a.lasts)
		done := make(chan string, 1)
		do := a.do
		if a.elsewhere {
			do = fromElsewhere(a.name, a.lasts)
		}
		go func() { done <- do(attack, t) }()
		row.during, err = t.measure(ctx, a.lasts-time.Second)
		cancel()
		row.note = <-done
		if err == nil {
			row.after, err = t.settle(ctx, base, a.after)
		}
		r.rows = append(r.rows, row)
		broken = append(broken, row.broken()...)
		if err != nil {
			broken = append(broken, fmt.Errorf("%s: %w", a.name, err))
			if err := t.restart(ctx); err != nil { // for what is left to be tried
				return errors.Join(append(broken, err)...)
			}
		}
	}
	return errors.Join(broken...)
}

// settle waits until the server has let go, or may no longer wait, and measures.
func (t *target) settle(ctx context.Context, base sample, beyond int64) (sample, error) {
	for end := time.Now().Add(settles); ; {
		s, err := t.measure(ctx, 2*time.Second)
		if err != nil || time.Now().After(end) || s.connections <= base.connections+leftOpen && s.resident <= base.resident+beyond {
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
	t := &target{options: o, address: address, url: "https://" + address}
	if err := t.launch(ctx); err != nil {
		return nil, err
	}
	if err := t.know(); err != nil {
		return t, err
	}
	return t, t.prepare(ctx)
}

// know reads whom to trust and who one is from the server's data.
func (t *target) know() error {
	data := filepath.Join(t.options.dir, "data")
	ca, err := os.ReadFile(filepath.Join(data, "tls", "ca.crt"))
	if err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(data, "admin-token"))
	if err != nil {
		return err
	}
	t.ca, t.admin, t.roots = string(ca), strings.TrimSpace(string(token)), x509.NewCertPool()
	t.roots.AppendCertsFromPEM(ca)
	t.http = t.client(64)
	return nil
}

// launch starts the server's process and bounds its memory.
func (t *target) launch(ctx context.Context) (err error) {
	begin, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	t.process, err = process.Start(begin, process.Options{
		Path: t.options.drover, LogFile: filepath.Join(t.options.dir, "server.log"), ReadyURL: t.url + "/ping",
		Args: []string{"server", "--data-dir", filepath.Join(t.options.dir, "data"), "--listen", t.address, "--server-url", t.url},
		Client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, // whether it answers; whom to trust is only known once it does
		}}},
	})
	if err != nil {
		return err
	}
	t.pid = t.process.PID()
	t.fence.remove()
	t.fence, err = confine(t.pid, t.options.memory)
	t.fence.watch(ctx, t.process)
	return err
}

// restart kills the server and starts it again on what it has stored.
func (t *target) restart(ctx context.Context) error {
	_ = t.process.Kill() // it may have ended by itself
	<-t.process.Done()
	return t.launch(ctx)
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
	return t.readToken(ctx)
}

// readToken reads the token by which hosts join that cluster.
func (t *target) readToken(ctx context.Context) error {
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
	name string
	limits
	before, during, after sample
	note                  string
}

func (r row) broken() (all []error) {
	if r.during.resident-r.before.resident > r.limits.during {
		all = append(all, fmt.Errorf("%s: %d MiB are resident meanwhile, %d before", r.name, r.during.resident>>20, r.before.resident>>20))
	}
	if r.after.resident > r.before.resident+r.limits.after {
		all = append(all, fmt.Errorf("%s: %d MiB are resident after it, %d before", r.name, r.after.resident>>20, r.before.resident>>20))
	}
	if r.after.connections > r.before.connections+leftOpen {
		all = append(all, fmt.Errorf("%s: %d connections are left open", r.name, r.after.connections))
	}
	if r.during.p50 > r.median {
		all = append(all, fmt.Errorf("%s: the well-behaved client waits %s one time of two", r.name, r.during.p50))
	}
	if r.during.p99 > r.slowest {
		all = append(all, fmt.Errorf("%s: the well-behaved client waits %s one time of a hundred", r.name, r.during.p99))
	}
	for line := range strings.SplitSeq(r.note, "; ") {
		if broken, is := strings.CutPrefix(line, "!"); is {
			all = append(all, fmt.Errorf("%s: %s", r.name, broken))
		}
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
