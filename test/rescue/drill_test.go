// Package rescue is the restore drill: a server with an agent is saved and brought back, and what the
// agent sees of that is held to what docs/how-to/back-up-the-server.md promises.
package rescue

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/cmd/drover/cli"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/apply/supervise"
	"github.com/drover-project/drover/plans/remote"
	"github.com/drover-project/drover/server"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/options"
	"github.com/drover-project/drover/server/store"
)

// office is a whole server in this process, which can be stopped and started again.
type office struct {
	*testing.T
	dir, url, address string
	backups           string // directory of scheduled ones
	stop              func()
}

func newOffice(t *testing.T) *office {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &office{T: t, dir: filepath.Join(t.TempDir(), "data"), address: free.Addr().String()}
	o.url = "https://" + o.address
	free.Close()
	return o
}

func (o *office) start() {
	o.Helper()
	ctx, cancel := context.WithCancel(o.Context())
	ended := make(chan error, 1)
	told := options.Options{
		DataDir: o.dir, Listen: o.address, ServerURL: o.url, AssetsDir: o.TempDir(), BootstrapPassword: "a long first password",
		Store: store.Options{UnsafeNoFsync: true}, Process: options.Process{
			Environ: func(string) string { return "" }, Out: io.Discard,
			Logger: slog.New(slog.NewTextHandler(o.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})), Now: time.Now,
		},
	}
	told.Backups.Dir, told.Backups.Every, told.Backups.Keep = o.backups, time.Hour, 2
	go func() { ended <- server.Run(ctx, told) }()
	o.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			o.Error(err)
		}
	})
	o.Cleanup(o.stop)
	o.until("it serves", func() bool {
		r, err := o.client().Get(o.url + "/ping")
		if err == nil {
			r.Body.Close()
		}
		return err == nil
	})
}

func (o *office) client() *http.Client {
	pool := x509.NewCertPool()
	if pem, err := os.ReadFile(filepath.Join(o.dir, "tls", "ca.crt")); err == nil {
		pool.AppendCertsFromPEM(pem)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
}

// until waits for something that comes from elsewhere, as long as a slow machine may need.
func (o *office) until(what string, ok func() bool) {
	o.Helper()
	limit := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-limit:
			o.Fatalf("waiting in vain: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ask is a request with a token; the answer must be a good one.
func (o *office) ask(token, method, path string, header map[string]string, body string) []byte {
	o.Helper()
	r, err := http.NewRequestWithContext(o.Context(), method, o.url+path, strings.NewReader(body))
	if err != nil {
		o.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer, err := o.client().Do(r)
	if err != nil {
		o.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= 300 {
		o.Fatalf("%s %s: %s %s %v", method, path, answer.Status, text, err)
	}
	return text
}

func (o *office) admin() string {
	o.Helper()
	raw, err := os.ReadFile(filepath.Join(o.dir, server.AdminTokenFile))
	if err != nil {
		o.Fatal(err)
	}
	return strings.TrimSpace(string(raw))
}

// drover runs a command as on the server's host.
func (o *office) drover(args ...string) (code int, out string) {
	o.Helper()
	var both bytes.Buffer
	code = cli.Main(o.Context(), append(args, "--data-dir", o.dir), cli.Streams{In: strings.NewReader(""), Out: &both, Err: &both}, func(string) string { return "" }, nil)
	return code, both.String()
}

// must runs a command that must do what it should.
func (o *office) must(args ...string) string {
	o.Helper()
	code, out := o.drover(args...)
	if code != 0 {
		o.Fatalf("drover %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// pier is a host that joined, with the real agent's parts that carry out plans.
type pier struct {
	*office
	dir, kubeconfig, namespace, name, token string
}

// join joins a host to a fleet, whose plans people give.
func (o *office) join(id string) *pier {
	o.Helper()
	var join struct{ Command string }
	if err := json.Unmarshal(o.ask(o.admin(), "POST", "/v1-drover/fleets/dock/join", nil, ""), &join); err != nil {
		o.Fatal(err)
	}
	given := regexp.MustCompile(`CATTLE_TOKEN='?([\w:-]+)`).FindStringSubmatch(join.Command)
	if given == nil {
		o.Fatalf("no token in %s", join.Command)
	}
	var got struct{ KubeConfig, Namespace, SecretName string }
	text := o.ask(given[1], "GET", "/v3/connect/agent", map[string]string{"X-Cattle-Id": strings.Repeat(id, 31), "X-Cattle-Address": "192.0.2.7", "X-Cattle-Node-Name": "pier-" + id}, "")
	if err := json.Unmarshal(text, &got); err != nil {
		o.Fatal(err)
	}
	_, rest, _ := strings.Cut(got.KubeConfig, "token: ")
	token, _, _ := strings.Cut(rest, "\n")
	return &pier{office: o, dir: o.TempDir(), kubeconfig: got.KubeConfig, namespace: got.Namespace, name: got.SecretName, token: token}
}

// live runs the agent until stop.
func (p *pier) live() (stop func()) {
	p.Helper()
	access, err := remote.ParseKubeconfig(p.kubeconfig)
	if err != nil {
		p.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		p.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(p.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	engine, err := apply.New(apply.Options{
		WorkDir: filepath.Join(p.dir, "work"), LedgerDir: filepath.Join(p.dir, "ledger"), AppliedDir: filepath.Join(p.dir, "applied"),
		Supervisor: []string{exe, supervise.Entry}, Logger: log,
	})
	if err != nil {
		p.Fatal(err)
	}
	source, err := remote.New(remote.Options{Access: access, Namespace: p.namespace, SecretName: p.name, Engine: engine, Logger: log})
	if err != nil {
		p.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = source.Run(ctx) // which is that ctx has ended
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
		engine.Close()
	})
	p.Cleanup(stop)
	return stop
}

// plan appends a word to a file, once it may.
func (p *pier) plan(word string) string {
	text := fmt.Sprintf("echo %s >> %s/ran; until test -e %s/go-%s; do sleep 0.05; done", word, p.dir, p.dir, word)
	b, err := json.Marshal(plans.Plan{Instructions: []plans.OneTimeInstruction{{Instruction: plans.Instruction{Name: "once", Command: "sh", Args: []string{"-c", text}}}}})
	if err != nil {
		p.Fatal(err)
	}
	return string(b)
}

func (p *pier) let(word string) {
	p.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, "go-"+word), nil, 0o600); err != nil {
		p.Fatal(err)
	}
}

// give gives the fleet a plan, once the operation of the one before has ended: the host has an outcome a moment before
// the server, which refuses a second plan until then.
func (p *pier) give(word string) {
	p.Helper()
	p.until("the operation of the plan before ends", func() bool {
		var all struct {
			Data []struct{ State operations.State }
		}
		if err := json.Unmarshal(p.ask(p.admin(), "GET", "/v1-drover/operations?limit=1000", nil, ""), &all); err != nil {
			p.Fatal(err)
		}
		for _, o := range all.Data {
			if !o.State.Ended() {
				return false
			}
		}
		return true
	})
	p.ask(p.admin(), "POST", "/v1-drover/fleets/dock/plan", map[string]string{"Content-Type": "application/json"}, p.plan(word))
}

func (p *pier) ran() []string {
	b, _ := os.ReadFile(filepath.Join(p.dir, "ran")) // nothing ran yet where there is none
	return strings.Fields(string(b))
}

// secret is the plan Secret, as the agent may read it.
func (p *pier) secret() (data map[string][]byte, version int64) {
	p.Helper()
	var s struct {
		Metadata struct{ ResourceVersion string }
		Data     map[string][]byte
	}
	if err := json.Unmarshal(p.ask(p.token, "GET", "/api/v1/namespaces/"+p.namespace+"/secrets/"+p.name, nil, ""), &s); err != nil {
		p.Fatal(err)
	}
	version, err := strconv.ParseInt(s.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		p.Fatal(err)
	}
	return s.Data, version
}

func (p *pier) wants(word string, state plans.State) func() bool {
	return func() bool {
		data, _ := p.secret()
		return strings.Contains(string(data[plans.KeyPlan]), "echo "+word+" ") && string(data[plans.KeyPlanState]) == string(state)
	}
}

func (p *pier) revision() int {
	data, _ := p.secret()
	n, _ := strconv.Atoi(string(data[plans.KeyPlanRevision]))
	return n
}

// TestRestoreDrill: a server is saved while a plan runs on a host, goes on, and is brought back to that
// moment. The agent finds it by itself and reports what it did; nothing runs twice, and revisions only grow.
func TestRestoreDrill(t *testing.T) {
	for _, lives := range []bool{true, false} {
		t.Run(fmt.Sprintf("agent lives on %t", lives), func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.start()
			p := o.join("a1")
			stop := p.live()
			p.let("first")
			p.give("first")
			p.until("the first plan", p.wants("first", plans.StateSucceeded))
			p.give("second")
			p.until("the second plan runs", p.wants("second", plans.StateInProgress))

			identity, err := age.GenerateX25519Identity()
			if err != nil {
				t.Fatal(err)
			}
			key := filepath.Join(t.TempDir(), "key.txt")
			if err := os.WriteFile(key, []byte(identity.String()+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "drover.tar.age")
			o.must("server", "backup", "--to", file, "--with-keys", "--encrypt-to", identity.Recipient().String())

			p.let("second")
			p.until("the end of the second plan", p.wants("second", plans.StateSucceeded))
			p.let("third")
			p.give("third")
			p.until("the third plan", p.wants("third", plans.StateSucceeded))
			_, newest := p.secret()
			revision := p.revision()

			if !lives {
				stop()
			}
			o.stop()
			out := o.must("server", "restore", "--from", file, "--identity", key, "--replace")
			if !strings.Contains(out, "0 clusters, 1 machines") || !strings.Contains(out, "what was there is in "+o.dir+".before-") {
				t.Errorf("restore says:\n%s", out)
			}
			o.start()
			if !lives {
				p.live()
			}
			p.until("the second plan is reported again", p.wants("second", plans.StateSucceeded))
			if diff := cmp.Diff([]string{"first", "second", "third"}, p.ran()); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
			if _, version := p.secret(); version <= newest {
				t.Errorf("the Secret has version %d after the restore and had %d before it", version, newest)
			}
			p.let("fourth")
			p.give("fourth")
			p.until("a plan given after the restore", p.wants("fourth", plans.StateSucceeded))
			if got := p.revision(); got <= revision {
				t.Errorf("the plan given after the restore has the revision %d, the last one before it had %d", got, revision)
			}
			if diff := cmp.Diff([]string{"first", "second", "third", "fourth"}, p.ran()); diff != "" {
				t.Errorf("runs (-want +got):\n%s", diff)
			}
		})
	}
}

// TestScheduledBackups: the server makes the first one when it starts and has none, says how they
// stand, and one of them is a server again.
func TestScheduledBackups(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.backups = filepath.Join(t.TempDir(), "backups")
	o.start()
	var files []string
	o.until("the first backup", func() bool {
		files, _ = filepath.Glob(filepath.Join(o.backups, "drover-*.tar"))
		code, _ := o.drover("server", "backups")
		return len(files) == 1 && code == 0
	})
	if out := o.must("server", "backups"); !strings.Contains(out, "the newest backup in "+o.backups+" is ") || !strings.Contains(out, "they have no keys: keep copies of encryption.key") {
		t.Errorf("drover server backups says:\n%s", out)
	}
	metrics := string(o.ask(o.admin(), "GET", "/metrics", nil, ""))
	if !strings.Contains(metrics, `drover_backups_total{outcome="succeeded"} 1`) || strings.Contains(metrics, "drover_backup_last_success_timestamp_seconds 0\n") {
		t.Error("the metrics do not have it")
	}
	o.stop()
	old := o.dir
	o.dir += "-new"
	if code, out := o.drover("server", "restore", "--from", files[0]); code != 1 || !strings.Contains(out, "it was made without keys") {
		t.Errorf("without keys: exit code %d\n%s", code, out)
	}
	o.must("server", "restore", "--from", files[0], "--keys", old)
	o.backups = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(o.backups, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o.start()
	var out string
	o.until("it says that backups fail", func() bool {
		var code int
		code, out = o.drover("server", "backups")
		return code == 1 && strings.Contains(out, "the last backup failed")
	})
	if !strings.Contains(out, "what to do: look at the directory "+o.backups) {
		t.Errorf("drover server backups says:\n%s", out)
	}
}
