//go:build e2e

package e2e

// An installation of the original rancher-system-agent, at work under a drover server, is taken over by drover's agent:
// by hand, by install.sh, by the upgrade controller's job.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/test/bed/process"
)

// originalUnit is what the original's install.sh writes, in the meaning of the contract.
const originalUnit = `[Unit]
Description=Rancher System Agent
Wants=network-online.target
After=network-online.target
[Install]
WantedBy=multi-user.target
[Service]
EnvironmentFile=-/etc/default/rancher-system-agent
EnvironmentFile=-/etc/sysconfig/rancher-system-agent
EnvironmentFile=-/etc/systemd/system/rancher-system-agent.env
Type=simple
Restart=always
RestartSec=5s
Environment=CATTLE_LOGLEVEL=info
Environment=CATTLE_AGENT_CONFIG=/etc/rancher/agent/config.yaml
Environment=CATTLE_AGENT_STRICT_VERIFY=true
ExecStart=/usr/local/bin/rancher-system-agent sentinel
`

const originalConfig = `workDirectory: /var/lib/rancher/agent/work
localEnabled: true
localPlanDirectory: /var/lib/rancher/agent/plans
appliedPlanDirectory: /var/lib/rancher/agent/applied
remoteEnabled: true
connectionInfoFile: /var/lib/rancher/agent/rancher2_connection_info.json
interlockDirectory: /var/lib/rancher/agent/interlock
preserveWorkDirectory: false
`

// office is a server with a cluster, and the bed that hosts are on.
type office struct {
	bed                 *bed.Bed
	bin, data, url      string
	original            string
	admin, registration string
	caSum               string
	client              *http.Client
	process             *process.Process
}

// takeover is one host of the original.
type takeover struct {
	*testing.T
	*office
	ctx      context.Context
	host     *host.Host
	id       string
	secret   string
	wentOver string // connection info as it was under the original
}

func TestTheOriginalIsTakenOver(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	o := newOffice(ctx, t)
	for i, tc := range []struct {
		name string
		run  func(*takeover)
	}{
		{"by copying the binary", (*takeover).byCopy},
		{"by install.sh", (*takeover).byInstaller},
		{"by the upgrade controller", (*takeover).byUpgradeController},
		{"in the middle of a plan", (*takeover).inTheMiddle},
		{"without plan-state", (*takeover).withoutState},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sum := sha256.Sum256([]byte{byte(i)})
			o := *o
			w := &takeover{T: t, office: &o, ctx: ctx, id: hex.EncodeToString(sum[:])[:63]}
			w.prepare(fmt.Sprintf("original-%d", i))
			tc.run(w)
		})
	}
}

func newOffice(ctx context.Context, t *testing.T) *office {
	t.Helper()
	module, err := filepath.Abs("../..")
	must(t, err)
	dir := t.TempDir()
	o := &office{bin: dir + "/bin", data: dir + "/data"}
	command := func(env []string, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.Env = module, append(os.Environ(), env...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
		}
		return strings.TrimSpace(string(out))
	}
	cache := os.Getenv("DROVER_CACHE")
	if cache == "" {
		cache = "/var/cache/drover"
	}
	o.original = command(nil, "test/peer/build-agent.sh", filepath.Join(cache, "peer"))
	must(t, os.Mkdir(o.bin, 0o755))
	command([]string{"CGO_ENABLED=0"}, "go", "build", "-o", o.bin, "./cmd/drover", "./cmd/rancher-system-agent")
	for _, script := range []string{"install.sh", "system-agent-uninstall.sh", "packaging/suc/run.sh"} {
		command(nil, "cp", script, o.bin)
	}
	o.bed, err = bed.Start(ctx, bed.Options{Dir: dir, CacheDir: os.Getenv("DROVER_CACHE"), Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	must(t, err)
	t.Cleanup(func() {
		if err := o.bed.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	address, err := o.bed.FreeAddress(ctx)
	must(t, err)
	o.url = "https://" + address
	// Readiness only, and afterwards an administrator on the server's own machine.
	o.client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	o.process, err = o.bed.Run(ctx, process.Options{
		Path: o.bin + "/drover", Args: []string{"server", "--data-dir", o.data, "--listen", address, "--server-url", o.url},
		ReadyURL: o.url + "/ping", Client: o.client,
	})
	must(t, err)
	token, err := os.ReadFile(o.data + "/admin-token")
	must(t, err)
	o.admin = strings.TrimSpace(string(token))
	env := []string{"DROVER_DATA_DIR=" + o.data, "DROVER_SERVER=", "DROVER_TOKEN=", "DROVER_CONFIG=" + dir + "/contexts"}
	command(env, o.bin+"/drover", "apply", "-f", "examples/k3s.yaml")
	join := command(env, o.bin+"/drover", "clusters", "join-command", "harbour", "--worker")
	given := regexp.MustCompile(`CATTLE_TOKEN=(\w+).* --ca-checksum (\w+)`).FindStringSubmatch(join)
	if given == nil {
		t.Fatal("the printed line has no token or no checksum")
	}
	o.registration, o.caSum = given[1], given[2]
	return o
}

// call asks the server, which must answer.
func (w *takeover) call(method, path, token string, header map[string]string, body any) []byte {
	w.Helper()
	text, status := w.ask(method, path, token, header, body)
	if status != http.StatusOK {
		w.Fatalf("%s %s: %d: %s", method, path, status, text)
	}
	return text
}

// ask asks the server; a body goes out as JSON.
func (w *takeover) ask(method, path, token string, header map[string]string, body any) (answered []byte, status int) {
	w.Helper()
	var out bytes.Buffer
	if body != nil {
		must(w.T, json.NewEncoder(&out).Encode(body))
	}
	r, err := http.NewRequestWithContext(w.ctx, method, w.url+path, &out)
	must(w.T, err)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer, err := w.client.Do(r)
	must(w.T, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(w.T, err)
	return text, answer.StatusCode
}

func (w *takeover) secretPath() string {
	return "/api/v1/namespaces/fleet-default/secrets/" + w.secret
}

func (w *takeover) data() map[string][]byte {
	w.Helper()
	var s struct{ Data map[string][]byte }
	must(w.T, json.Unmarshal(w.call(http.MethodGet, w.secretPath(), w.admin, nil, nil), &s))
	return s.Data
}

// change writes the Secret's data as an administrator, again when the agent wrote in between.
func (w *takeover) change(change func(map[string][]byte) map[string][]byte) {
	w.Helper()
	for {
		text := w.call(http.MethodGet, w.secretPath(), w.admin, nil, nil)
		var secret map[string]any
		var now struct{ Data map[string][]byte }
		must(w.T, errors.Join(json.Unmarshal(text, &secret), json.Unmarshal(text, &now)))
		secret["data"] = change(now.Data)
		answer, status := w.ask(http.MethodPut, w.secretPath(), w.admin, nil, secret)
		switch status {
		case http.StatusOK:
			return
		case http.StatusConflict:
		default:
			w.Fatalf("the Secret is not taken: %d: %s", status, answer)
		}
	}
}

// plan is one instruction that counts its runs in /srv/NAME, then does more.
func (w *takeover) plan(name, more string) []byte {
	w.Helper()
	text, err := json.Marshal(map[string]any{"instructions": []any{map[string]any{
		"name": name, "command": "sh", "args": []string{"-c", "echo ran >>/srv/" + name + "; " + more}, "saveOutput": true,
	}}})
	must(w.T, err)
	return text
}

func (w *takeover) deliver(plan []byte) {
	w.Helper()
	w.change(func(data map[string][]byte) map[string][]byte { return plans.Deliver(data, plan) })
}

func (w *takeover) awaitState(state plans.State) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute)
	defer cancel()
	must(w.T, bed.Await(ctx, "the plan to be "+string(state), 200*time.Millisecond, func(context.Context) error {
		if got := w.data()[plans.KeyPlanState]; string(got) != string(state) {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	}))
}

func (w *takeover) sh(script string) string {
	w.Helper()
	out, err := w.host.Sh(w.ctx, script)
	if err != nil {
		w.Fatalf("on the host: %v", err)
	}
	return out
}

func (w *takeover) awaitSh(what, script string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute)
	defer cancel()
	must(w.T, bed.Await(ctx, what, 200*time.Millisecond, func(ctx context.Context) error { _, err := w.host.Sh(ctx, script); return err }))
}

// prepare makes a host on which the original has run a plan of the server and a dropped one.
func (w *takeover) prepare(name string) {
	var err error
	w.host, err = w.bed.Host(w.ctx, host.Options{Name: name})
	must(w.T, err)
	w.T.Cleanup(func() {
		if w.T.Failed() {
			log, _ := w.host.Journal(context.WithoutCancel(w.ctx), "rancher-system-agent")
			w.T.Logf("journal:\n%s", tail(log, 80))
		}
	})
	info := w.call(http.MethodGet, "/v3/connect/agent", w.registration, map[string]string{
		"X-Cattle-Id": w.id, "X-Cattle-Role-Etcd": "false", "X-Cattle-Role-Control-Plane": "false", "X-Cattle-Role-Worker": "true",
		"X-Cattle-Node-Name": name, "X-Cattle-Labels": "cattle.io/os=linux",
	}, nil)
	var given struct{ SecretName string }
	must(w.T, json.Unmarshal(info, &given))
	w.secret = given.SecretName
	w.sh("umask 077; mkdir -p /etc/rancher/agent /var/lib/rancher/agent/interlock /var/lib/rancher/agent/plans")
	for path, content := range map[string]string{
		"/etc/rancher/agent/config.yaml": originalConfig, "/etc/rancher/agent/cattle-id": w.id + "\n",
		"/var/lib/rancher/agent/rancher2_connection_info.json": string(info),
		"/var/lib/rancher/agent/plans/local.plan":              string(w.plan("local", ":")),
	} {
		must(w.T, w.host.WriteFile(w.ctx, path, []byte(content), 0o600))
	}
	must(w.T, w.host.WriteFile(w.ctx, "/etc/systemd/system/rancher-system-agent.service", []byte(originalUnit), 0o644))
	must(w.T, w.host.Copy(w.ctx, w.original, "/usr/local/bin/rancher-system-agent"))
	must(w.T, w.host.Copy(w.ctx, w.bin, "/srv/bin"))
	w.sh("systemctl daemon-reload; systemctl enable --now rancher-system-agent")
	w.deliver(w.plan("finished", ":"))
	w.awaitState(plans.StateSucceeded)
	w.awaitSh("the dropped plan", "test -s /var/lib/rancher/agent/plans/local.pos")
	w.sh("ls /var/lib/rancher/agent/applied/*-applied.plan")
	w.wentOver = w.sh("cat /var/lib/rancher/agent/rancher2_connection_info.json")
}

func (w *takeover) registrations() int {
	w.Helper()
	log, err := os.ReadFile(w.process.LogFile())
	must(w.T, err)
	return strings.Count(string(log), "machine registered")
}

// takenOver looks whether drover's agent works for the same machine, and ran nothing again.
func (w *takeover) takenOver() {
	w.Helper()
	w.awaitSh("drover's agent to reach the server", `grep '"connected":true' `+updateDir+`/health.json`)
	w.awaitSh("the position of the dropped plan", "test -s /var/lib/rancher/agent/plans/local.pos")
	w.deliver(w.plan("next", ":"))
	w.awaitState(plans.StateSucceeded)
	if out := w.sh("cd /srv; wc -l finished local next | grep -v total | tr -s ' '"); out != " 1 finished\n 1 local\n 1 next\n" {
		w.Errorf("runs:\n%s", out)
	}
	w.sh("test -e /etc/rancher/agent/cattle-id; ! test -e /var/lib/rancher/system-agent/etc")
	if out := w.sh("cat /etc/rancher/agent/cattle-id"); out != w.id+"\n" {
		w.Errorf("the machine is %q now", out)
	}
}

func (w *takeover) copyOver() {
	w.Helper()
	w.sh("cp /srv/bin/rancher-system-agent /usr/local/bin/.new && mv /usr/local/bin/.new /usr/local/bin/rancher-system-agent; systemctl restart rancher-system-agent")
}

func (w *takeover) byCopy() {
	before := w.registrations()
	w.copyOver()
	w.takenOver()
	if after := w.registrations(); after != before {
		w.Errorf("the machine registered %d times", after-before)
	}
	if info := w.sh("cat /var/lib/rancher/agent/rancher2_connection_info.json"); info != w.wentOver {
		w.Error("the connection information has changed")
	}
}

func (w *takeover) byInstaller() {
	w.sh(fmt.Sprintf(`cd /srv/bin; CATTLE_LOCAL_ENABLED=true CATTLE_AGENT_BINARY_LOCAL=true CATTLE_AGENT_BINARY_LOCAL_LOCATION=/srv/bin/rancher-system-agent \
CATTLE_AGENT_UNINSTALL_LOCAL=true CATTLE_AGENT_UNINSTALL_LOCAL_LOCATION=/srv/bin/system-agent-uninstall.sh \
sh install.sh --server %s --token %s --ca-checksum %s --worker --label cattle.io/os=linux`, w.url, w.registration, w.caSum))
	w.takenOver()
	w.sh("grep KillMode=process /etc/systemd/system/rancher-system-agent.service; test -x /usr/local/bin/rancher-system-agent.previous")
}

// byUpgradeController runs the job's script where the host's root is at /host, as in the pod.
func (w *takeover) byUpgradeController() {
	kubectl := "#!/bin/sh\n# stand-in of kubectl\ncat <<'Y'\nmetadata:\n  labels:\n    node-role.kubernetes.io/worker: \"true\"\n  name: x\nY\n"
	must(w.T, w.host.WriteFile(w.ctx, "/usr/local/bin/kubectl", []byte(kubectl), 0o755))
	w.sh(fmt.Sprintf(`mkdir -p /host; mount --rbind / /host; mv /srv/bin /opt/rancher-system-agent-suc
CATTLE_LOCAL_ENABLED=true CATTLE_SERVER=%s CATTLE_TOKEN=%s CATTLE_CA_CHECKSUM=%s CATTLE_LABELS=cattle.io/os=linux SYSTEM_UPGRADE_NODE_NAME=%s \
/opt/rancher-system-agent-suc/run.sh`, w.url, w.registration, w.caSum, w.host.Name()))
	w.takenOver()
	if left := w.sh("ls /var/lib/rancher/agent/tmp"); left != "" {
		w.Errorf("left behind: %s", left)
	}
}

// inTheMiddle: the original keeps no record of what it did, so the plan begins anew.
func (w *takeover) inTheMiddle() {
	w.deliver(w.plan("cut", "test -e /srv/go || sleep 600"))
	w.awaitSh("the instruction", "test -s /srv/cut")
	if got := w.data()[plans.KeyPlanState]; string(got) != string(plans.StateInProgress) {
		w.Fatalf("the state is %q", got)
	}
	w.sh("touch /srv/go")
	w.copyOver()
	w.awaitState(plans.StateSucceeded)
	if out := w.sh("wc -l </srv/cut"); out != "2\n" {
		w.Errorf("it ran %s times, want 2", strings.TrimSpace(out))
	}
	w.takenOver()
}

// withoutState: the first pass applies by force, as the original's does.
func (w *takeover) withoutState() {
	plan := w.plan("legacy", ":")
	w.change(func(data map[string][]byte) map[string][]byte {
		delete(data, plans.KeyPlanState)
		data[plans.KeyPlan] = plan
		return data
	})
	applied := func() {
		w.Helper()
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Minute)
		defer cancel()
		must(w.T, bed.Await(ctx, "the plan to be applied", 200*time.Millisecond, func(context.Context) error {
			if got := string(w.data()[plans.KeyAppliedChecksum]); got != plans.Checksum(plan) {
				return fmt.Errorf("applied is %q", got)
			}
			return nil
		}))
	}
	applied()
	w.copyOver()
	w.awaitSh("the force-apply", `test "$(wc -l </srv/legacy)" = 2`)
	applied()
	w.takenOver()
	if out := w.sh("wc -l </srv/legacy"); out != "2\n" {
		w.Errorf("it ran %s times, want 2", strings.TrimSpace(out))
	}
}
