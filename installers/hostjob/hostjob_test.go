package hostjob_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/plans"
)

// host is a temporary directory in the place of a host: programs are scripts that write down how they were called.
type host struct {
	*testing.T
	hostjob.Host
	dir string
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{T: t, dir: t.TempDir()}
	h.Host = hostjob.Host{Distribution: runtimes.K3s(), DataDir: filepath.Join(h.dir, "data"), Server: true}
	h.program("systemctl", `case "$1" in is-active) exit 1 ;; show) echo "Thu 1970-01-01 00:00:00 UTC" ;; esac`)
	h.write("data/server/db/snapshots/.keep", "")
	return h
}

func (h *host) write(name, text string) string {
	h.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		h.Fatal(err)
	}
	return path
}

// program puts a script into the host's PATH, which notes each call.
func (h *host) program(name, script string) {
	h.Helper()
	h.write("bin/"+name, "#!/bin/sh\necho \""+name+" $*\" >>'"+h.dir+"/calls'\n"+script+"\n")
}

// calls are the calls of programs so far, without those that only look.
func (h *host) calls() []string {
	h.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "calls"))
	if err != nil && !os.IsNotExist(err) {
		h.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); !strings.Contains(line, "is-active") && !strings.Contains(line, " show ") && !strings.Contains(line, "reset-failed") && !strings.HasSuffix(line, " status") {
			all = append(all, line)
		}
	}
	return all
}

// run does a job, which is killed after a time that is not zero.
func (h *host) run(in plans.OneTimeInstruction, kill time.Duration) (string, error) {
	h.Helper()
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	if kill > 0 {
		defer time.AfterFunc(kill, cancel).Stop()
	}
	cmd := exec.CommandContext(ctx, in.Command, in.Args...)
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(h.dir, "bin")+":"+os.Getenv("PATH"))
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// database is a file as etcd writes its snapshots.
func database(more string) string {
	page := make([]byte, 4096)
	copy(page[16:], []byte{0xed, 0xda, 0x0c, 0xed})
	copy(page[512:], more)
	sum := sha256.Sum256(page)
	return string(page) + string(sum[:])
}

// TestASnapshotIsTakenOnce: delivered again it is not taken again, and says the same.
func TestASnapshotIsTakenOnce(t *testing.T) {
	h := newHost(t)
	whole := h.write("whole", database(""))
	h.program("k3s", `[ "$2" != save ] || cp '`+whole+"' '"+h.DataDir+"/server/db/snapshots/on-demand-a-1'")
	first, err := h.run(h.Save("op-1-save-1", "on-demand"), 0)
	if err != nil {
		t.Fatal(err, first)
	}
	file, err := hostjob.ReadFile([]byte(first))
	if err != nil || file.Size != 4128 || filepath.Base(file.File) != "on-demand-a-1" || len(file.SHA256) != 64 {
		t.Errorf("it says %+v, %v: %s", file, err, first)
	}
	second, err := h.run(h.Save("op-1-save-1", "on-demand"), 0)
	if again, _ := hostjob.ReadFile([]byte(second)); err != nil || again != file || len(h.calls()) != 2 || h.calls()[1] != "k3s etcd-snapshot prune --name on-demand-a-" {
		t.Errorf("delivered again it says %q, %v, after the calls %q", second, err, h.calls())
	}
}

// TestASnapshotThatWasTakenBeforeTheHostWentDown is found.
func TestASnapshotThatWasTakenBeforeTheHostWentDown(t *testing.T) {
	h := newHost(t)
	h.write("data/drover/errands/op-1-save-1.begun", "")
	past := time.Now().Add(-time.Minute)
	if err := os.Chtimes(filepath.Join(h.dir, "data/drover/errands/op-1-save-1.begun"), past, past); err != nil {
		t.Fatal(err)
	}
	h.write("data/server/db/snapshots/on-demand-a-1", database(""))
	out, err := h.run(h.Save("op-1-save-1", "on-demand"), 0)
	if err != nil || strings.Contains(strings.Join(h.calls(), "\n"), "save") {
		t.Errorf("%v: %s, after the calls %q", err, out, h.calls())
	}
}

// TestCheck: what is wrong with a file is said in a sentence, before anything is stopped.
func TestCheck(t *testing.T) {
	good := database("/bootstrap/0123456789ab")
	flipped := []byte(good)
	flipped[2000] ^= 1
	for _, c := range []struct{ name, content, want string }{
		{"whole", good, ""},
		{"missing", "", "there is no file"},
		{"cut", good[:4000], "was cut"},
		{"flipped", string(flipped), "has changed since it was written"},
		{"something else", strings.Repeat("x", 4128), "is not a database of etcd"},
		{"of another token", database("/bootstrap/ffffffffffff"), "was taken with another server token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			if c.content != "" {
				h.write("data/server/db/snapshots/one", c.content)
			}
			out, err := h.run(h.Check("op-1-check-1", "one", []string{"0123456789ab"}), 0)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(out, c.want)) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestAFailedJobIsNotTriedAgain under its ID: a new try has another one.
func TestAFailedJobIsNotTriedAgain(t *testing.T) {
	h := newHost(t)
	h.program("k3s", "echo no space left on device; exit 1")
	for range 2 {
		if out, err := h.run(h.Save("op-1-save-1", "on-demand"), 0); err == nil {
			t.Error(out)
		}
	}
	if len(h.calls()) != 1 {
		t.Errorf("the calls are %q", h.calls())
	}
	if _, err := h.run(h.Save("op-1-save-2", "on-demand"), 0); err == nil || len(h.calls()) != 2 {
		t.Errorf("the second try: %v, %q", err, h.calls())
	}
}

// TestCertificatesKilledInTheMiddle: killed while its unit starts, it renews nothing a second time, and starts the unit.
func TestCertificatesKilledInTheMiddle(t *testing.T) {
	h := newHost(t)
	pair := h.write("data/server/tls/kube-scheduler/kube-scheduler.crt", "x")
	h.program("k3s", "")
	h.program("systemctl", `if [ "$1" = start ] && [ ! -e '`+h.dir+`/slow' ]; then touch '`+h.dir+`/slow'; kill -9 $(ps -o ppid= -p $(ps -o ppid= -p $$)); fi`)
	_, _ = h.run(h.Certificates("op-1-rotate-1", nil), 0)
	out, err := h.run(h.Certificates("op-1-rotate-1", nil), 0)
	rotated := 0
	for _, call := range h.calls() {
		if strings.HasPrefix(call, "k3s certificate rotate") {
			rotated++
		}
	}
	if err != nil || rotated != 1 || !strings.Contains(out, "was begun at") {
		t.Errorf("%v: %s, after %q", err, out, h.calls())
	}
	if _, err := os.Stat(pair); !os.IsNotExist(err) {
		t.Errorf("the self-signed certificate is still there: %v", err)
	}
}

// TestOldKeysAreRemoved after a rotation and after a restore, with what looks like them kept, and are reported.
func TestOldKeysAreRemoved(t *testing.T) {
	for name, does := range map[string]func(h *host) plans.OneTimeInstruction{
		"certificates": func(h *host) plans.OneTimeInstruction { return h.Certificates("op-1-rotate-1", nil) },
		"a restore":    func(h *host) plans.OneTimeInstruction { return h.Clean("op-1-clean-1") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.program("k3s", "mkdir -p '"+h.DataDir+"/server/tls-1763726400'; echo key >'"+h.DataDir+"/server/tls-1763726400/server-ca.key'")
			kept := []string{h.write("data/server/tls/server-ca.key", "x"), h.write("data/server/tls-mine/key", "x"), h.write("data/server/tls-17x/key", "x"), h.write("mine/key", "x")}
			gone := []string{h.write("data/server/tls-1763640000/server-ca.key", "x"), h.write("data/agent/tls-1763640001/kubelet.key", "x"), filepath.Join(h.DataDir, "server/tls-1763726400")}
			if err := os.Symlink(filepath.Join(h.dir, "mine"), filepath.Join(h.DataDir, "server/tls-1")); err != nil {
				t.Fatal(err)
			}
			out, err := h.run(does(h), 0)
			if err != nil {
				t.Fatal(err, out)
			}
			for _, file := range kept {
				if _, err := os.Stat(file); err != nil {
					t.Error(err)
				}
			}
			for _, file := range gone {
				if _, err := os.Stat(file); err == nil {
					t.Errorf("%s is still there", file)
				}
			}
			if got := hostjob.Removed([]byte(out)); !strings.Contains(got, h.DataDir+"/server/tls-1763640000") || !strings.Contains(got, h.DataDir+"/agent/tls-1763640001") {
				t.Errorf("it says %q of %s", got, out)
			}
		})
	}
}

func TestRemoved(t *testing.T) {
	const said = "removed with the private keys of before: "
	for output, want := range map[string]string{
		"":                        "",
		"the certificates are...": "",
		"x\n" + said + "/var/lib/rancher/k3s/server/tls-17\ny": said + "/var/lib/rancher/k3s/server/tls-17",
		said + "/d/tls-1\n" + said + "/d/\x1b[31m/tls-2\n":     said + "/d/tls-1",
		strings.Repeat(said+"/d/tls-1\n", 7):                   said + "/d/tls-1, /d/tls-1, /d/tls-1, /d/tls-1, /d/tls-1 and 2 more",
	} {
		if got := hostjob.Removed([]byte(output)); got != want {
			t.Errorf("of %q it is %q, want %q", output, got, want)
		}
	}
}

// TestCertificatesOfServices renews those alone, and removes the self-signed pairs of those alone.
func TestCertificatesOfServices(t *testing.T) {
	h := newHost(t)
	kept := h.write("data/server/tls/kube-scheduler/kube-scheduler.crt", "x")
	h.program("k3s", "")
	if out, err := h.run(h.Certificates("op-1-rotate-1", []string{"controller-manager", "admin"}), 0); err != nil {
		t.Fatal(err, out)
	}
	want := []string{"systemctl stop k3s", "k3s certificate rotate --service controller-manager --service admin", "systemctl start k3s"}
	if got := strings.Join(h.calls(), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the calls are\n%s", got)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

// TestAUnitThatDoesNotStart: a server that ends while it starts is started again, a few times.
func TestAUnitThatDoesNotStart(t *testing.T) {
	for name, c := range map[string]struct {
		fails, starts int
		said          string
	}{"once": {1, 2, "the certificates are renewed"}, "always": {99, 5, "k3s does not start; journalctl -u k3s says why"}} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			tries := h.write("tries", "")
			h.program("k3s", "")
			h.program("systemctl", `if [ "$1" = start ]; then echo x >>'`+tries+`'; [ $(wc -l <'`+tries+fmt.Sprintf(`') -gt %d ]; fi`, c.fails))
			out, err := h.run(h.Certificates("op-1-rotate-1", nil), 0)
			if (err == nil) != (c.fails == 1) || !strings.Contains(out, c.said) {
				t.Errorf("%v: %s", err, out)
			}
			if text, _ := os.ReadFile(tries); strings.Count(string(text), "x") != c.starts {
				t.Errorf("it was started %d times", strings.Count(string(text), "x"))
			}
		})
	}
}

// keyed is a k3s whose encryption key is rotated by its command, and that ends before it says so when it is told to.
const keyed = `case "$*" in
"secrets-encrypt rotate-keys") echo new >"$STATE" ;;
*) cat <<END
Encryption Status: Enabled
Current Rotation Stage: reencrypt_finished
Server Encryption Hashes: All hashes match

Active  Key Type  Name
------  --------  ----
 *      AES-CBC   $(cat "$STATE")
END
;; esac`

// TestKeys: the key is rotated once, also when the host went down before that was known.
func TestKeys(t *testing.T) {
	for name, begun := range map[string]bool{"undisturbed": false, "after a crash": true} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			state := h.write("state", "old\n")
			h.program("k3s", "STATE='"+state+"'\n"+keyed)
			want := 1
			if begun {
				for file, text := range map[string]string{"begun": "", "before": "", "key": "old\n"} {
					h.write("data/drover/errands/op-1-keys-1."+file, text)
				}
				h.write("state", "new\n")
				want = 0
			}
			out, err := h.run(h.Keys("op-1-keys-1"), 0)
			if err != nil || len(h.calls()) != want || !strings.Contains(out, "new key new") {
				t.Errorf("%v: %s, after %q", err, out, h.calls())
			}
		})
	}
	h := newHost(t)
	h.program("k3s", "echo 'Encryption Status: Disabled, no configuration file found'")
	if out, err := h.run(h.Keys("op-1-keys-1"), 0); err == nil || !strings.Contains(out, "not encrypted in this cluster") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestStopAndRestore: what was there is kept aside until it is cleaned away, and a second try does not lose it.
func TestStopAndRestore(t *testing.T) {
	h := newHost(t)
	h.write("data/server/db/etcd/member", "old")
	h.write("data/server/tls/ca.crt", "old")
	h.write("data/server/db/snapshots/one", database(""))
	for _, id := range []string{"op-1-stop-1", "op-1-stop-2"} {
		if out, err := h.run(h.Stop(id, "op-1"), 0); err != nil {
			t.Fatal(err, out)
		}
	}
	h.program("k3s", "mkdir -p '"+h.DataDir+"/server/db/etcd'; echo half >'"+h.DataDir+"/server/db/etcd/member'; echo 'level=fatal msg=\"no space left\"'; exit 1")
	if out, err := h.run(h.Restore("op-1-restore-1", "op-1", "one"), 0); err == nil || !strings.Contains(out, "no space left") {
		t.Errorf("%v: %s", err, out)
	}
	h.program("k3s", "[ ! -e '"+h.DataDir+"/server/db/etcd' ] || exit 1; mkdir -p '"+h.DataDir+"/server/cred' '"+h.DataDir+"/agent/pod-manifests'; touch '"+h.DataDir+"/server/db/reset-flag' '"+h.DataDir+"/server/cred/passwd' '"+h.DataDir+"/agent/pod-manifests/kube-proxy.yaml'")
	if out, err := h.run(h.Restore("op-1-restore-2", "op-1", "one"), 0); err != nil {
		t.Error(err, out)
	}
	if _, err := os.Stat(filepath.Join(h.DataDir, "server/cred/passwd")); !os.IsNotExist(err) {
		t.Errorf("the file of passwords, which is newer than the snapshot, is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(h.DataDir, "agent/pod-manifests/kube-proxy.yaml")); !os.IsNotExist(err) {
		t.Errorf("the kube-proxy of the run, which a kubelet would wait for, is still there: %v", err)
	}
	if text, err := os.ReadFile(filepath.Join(h.DataDir, "server/before-op-1/db/etcd/member")); err != nil || string(text) != "old" {
		t.Errorf("what was there before is %q, %v", text, err)
	}
	if out, err := h.run(h.Clean("op-1-clean-1"), 0); err != nil {
		t.Error(err, out)
	}
	if _, err := os.Stat(filepath.Join(h.DataDir, "server/before-op-1")); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestForget deletes the nodes of other machines, and no others.
func TestForget(t *testing.T) {
	h := newHost(t)
	h.program("k3s", `case "$*" in *"get nodes"*) printf 'pier-1 uid-1\npier-2 uid-2\nalien \n' ;; esac`)
	out, err := h.run(h.Forget("op-1-forget-1", []string{"uid-1", "uid-3"}), 0)
	deleted := 0
	for _, call := range h.calls() {
		if strings.Contains(call, "delete node") {
			deleted++
			if !strings.Contains(call, "delete node pier-2") {
				t.Errorf("it calls %s", call)
			}
		}
	}
	if err != nil || deleted != 1 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestJobsAmongInstructions are found and told from others.
func TestJobsAmongInstructions(t *testing.T) {
	h := newHost(t)
	install := h.Distribution.Install("image", "stamp", "hash", "/d", true, nil)
	all := append(install, h.Keys("op-1-keys-1"))
	if hostjob.Of(install) != "" || hostjob.Of(all) != "op-1-keys-1" || len(hostjob.Without(all)) != len(install) || len(hostjob.Only(all)) != 1 {
		t.Errorf("of %q: %q", hostjob.Of(install), hostjob.Of(all))
	}
}
