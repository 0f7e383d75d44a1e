package packaging

// A host to install on: a temporary root, and tools of its own in front of the
// machine's, which record what they were asked and touch nothing outside.

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/skips"
)

const (
	installScript   = "../install.sh"
	uninstallScript = "../system-agent-uninstall.sh"
	interlock       = "/var/lib/rancher/agent/interlock"
)

// agentBinary is the program of testdata/agent, built once by TestMain.
var agentBinary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "packaging")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	agentBinary = filepath.Join(dir, "agent")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", agentBinary, "./testdata/agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	code := 1
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the agent of the tests: %v\n%s", err, out)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// shell is an interpreter that hosts have as /bin/sh.
type shell struct {
	name string
	args []string
	// ownTools: it runs its own sleep, id and chown before those in PATH.
	ownTools bool
}

// shells finds what this machine has; sh is always there.
func shells(t *testing.T) []shell {
	t.Helper()
	found := []shell{{name: "sh", args: []string{"sh"}}}
	system, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []shell{
		{name: "dash", args: []string{"dash"}},
		{name: "bash", args: []string{"bash", "--posix"}},
		{name: "busybox", args: []string{"busybox", "sh"}},
	} {
		path, err := exec.LookPath(s.args[0])
		if err != nil {
			continue
		}
		if actual, err := filepath.EvalSymlinks(path); err != nil || actual == system {
			continue
		}
		s.args[0] = path
		probe := exec.Command(s.args[0], append(s.args[1:], "-c", "PATH=/nonexistent; sleep 0")...)
		s.ownTools = probe.Run() == nil
		if s.ownTools && os.Geteuid() != 0 {
			continue // it would see that we are not root
		}
		found = append(found, s)
	}
	return found
}

// eachShell runs test in parallel with every shell.
func eachShell(t *testing.T, test func(t *testing.T, sh shell)) {
	t.Helper()
	runShells(t, shells(t), test)
}

// oneShell runs case number i of a long table with one of the shells, in turn.
func oneShell(t *testing.T, i int, test func(t *testing.T, sh shell)) {
	t.Helper()
	all := shells(t)
	runShells(t, all[i%len(all):][:1], test)
}

func runShells(t *testing.T, shells []shell, test func(t *testing.T, sh shell)) {
	t.Helper()
	for _, sh := range shells {
		t.Run(sh.name, func(t *testing.T) {
			t.Parallel()
			test(t, sh)
		})
	}
}

type host struct {
	t     *testing.T
	shell shell
	root  string // CATTLE_ROOT
	tmp   string // TMPDIR
	tools string // first in PATH
	log   string // what the tools write: a file for each
	env   []string
}

func newHost(t *testing.T, sh shell) *host {
	t.Helper()
	dir := t.TempDir()
	h := &host{
		t: t, shell: sh, root: dir + "/root", tmp: dir + "/tmp", tools: dir + "/tools", log: dir + "/log",
	}
	for _, d := range []string{h.root, h.tmp, h.tools, h.log} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal("curl is needed to run install.sh: ", err)
	}
	h.tool("id", `echo 0`)
	h.tool("chown", `:`)
	h.tool("sync", `:`)
	h.tool("sleep", `echo "$1" >>`+h.log+`/sleep`)
	// The log says whether the agent was held back ("held") at that moment.
	h.tool("systemctl", `if [ "$1" = --version ]; then echo "systemd ${FAKE_SYSTEMD:-252} (252.1)"; exit; fi
[ ! -e `+h.root+interlock+`/restart-pending ] || held=" held"
echo "$*$held" >>`+h.log+`/systemctl
case $1 in is-active) [ -e `+h.log+`/active ] && cat `+h.log+`/active || { echo inactive; exit 3; } ;; esac
[ ! -e `+h.log+`/fails-"$1" ]`)
	h.tool("curl", `echo "${CATTLE_TOKEN:+environment: $CATTLE_TOKEN }$*" >>`+h.log+`/curl
for a; do case $a in */headers) ls -l "$a" >>`+h.log+`/headers ;; esac; done
exec `+curl+` "$@"`)
	return h
}

// tool puts a program in front of the machine's own.
func (h *host) tool(name, script string) {
	h.t.Helper()
	h.write(h.tools+"/"+name, "#!/bin/sh\n"+script+"\n", 0o755)
}

// write makes a file with its directories.
func (h *host) write(path, content string, mode fs.FileMode) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		h.t.Fatal(err)
	}
}

// result is how a script ended.
type result struct {
	code           int
	stdout, stderr string
}

// command prepares a run of script, which is piped to the shell as curl would.
func (h *host) command(ctx context.Context, script []byte, args ...string) *exec.Cmd {
	argv := slices.Concat(h.shell.args, []string{"-s", "-"}, args)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin = bytes.NewReader(script)
	cmd.Dir = h.tmp
	cmd.Env = append([]string{
		"PATH=" + h.tools + ":" + os.Getenv("PATH"), "TMPDIR=" + h.tmp, "CATTLE_ROOT=" + h.root,
		"NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1",
		"CATTLE_REGISTRATION_TIMEOUT=30", // pauses take no time here, so a wrong retry would run hot for long
	}, h.env...)
	return cmd
}

func (h *host) run(script []byte, args ...string) result {
	h.t.Helper()
	cmd := h.command(h.t.Context(), script, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		h.t.Fatal(err)
	}
	return result{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
}

func (h *host) install(args ...string) result {
	h.t.Helper()
	return h.run(readFile(installScript), args...)
}

// join installs with the flags of a join command, and args.
func (h *host) join(s *server, args ...string) result {
	h.t.Helper()
	return h.install(slices.Concat(joinFlags(s), args)...)
}

func joinFlags(s *server) []string {
	return []string{"--server", s.URL, "--token", testToken, "--ca-checksum", checksum(s.ca.pem)}
}

// mustJoin is a join that has to work.
func (h *host) mustJoin(s *server, args ...string) result {
	h.t.Helper()
	res := h.join(s, args...)
	if res.code != 0 {
		h.t.Fatalf("install.sh ended with %d\nstdout: %s\nstderr: %s", res.code, res.stdout, res.stderr)
	}
	return res
}

// installAlone installs an agent that has no server, which needs no downloads and is quick.
func (h *host) installAlone() result {
	h.t.Helper()
	h.write(h.tools+"/uninstall.sh", string(readFile(uninstallScript)), 0o644)
	h.env = append(h.env,
		"CATTLE_REMOTE_ENABLED=false", "CATTLE_LOCAL_ENABLED=true",
		"CATTLE_AGENT_BINARY_LOCAL=true", "CATTLE_AGENT_BINARY_LOCAL_LOCATION="+agentBinary,
		"CATTLE_AGENT_UNINSTALL_LOCAL=true", "CATTLE_AGENT_UNINSTALL_LOCAL_LOCATION="+h.tools+"/uninstall.sh")
	return h.install()
}

// read returns a file of the host.
func (h *host) read(path string) string {
	h.t.Helper()
	data, err := os.ReadFile(h.root + path)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(data)
}

// logged returns the lines that a tool wrote.
func (h *host) logged(tool string) []string {
	h.t.Helper()
	data, err := os.ReadFile(h.log + "/" + tool)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// snapshot describes everything below the root: mode, time and content.
func (h *host) snapshot() map[string]string {
	h.t.Helper()
	return tree(h.t, h.root, func(path string, info fs.FileInfo) string {
		if info.IsDir() {
			return info.Mode().String()
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			if err != nil {
				h.t.Fatal(err)
			}
			return "-> " + target
		}
		return fmt.Sprint(info.Mode(), " ", info.ModTime().UnixNano(), " ", checksum(readFile(path)))
	})
}

// modes lists the files and directories below the root with their modes.
func (h *host) modes() map[string]string {
	h.t.Helper()
	return tree(h.t, h.root, func(_ string, info fs.FileInfo) string { return info.Mode().String() })
}

func tree(t *testing.T, root string, describe func(path string, info fs.FileInfo) string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.Walk(root, func(path string, info fs.FileInfo, err error) error {
		if err == nil && path != root {
			found[strings.TrimPrefix(path, root)] = describe(path, info)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// wantNoLeftovers fails when the private directory of a run is still there.
func (h *host) wantNoLeftovers() {
	h.t.Helper()
	entries, err := os.ReadDir(h.tmp)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range entries {
		h.t.Errorf("left behind in TMPDIR: %s", e.Name())
	}
	for path := range h.modes() {
		if strings.HasPrefix(filepath.Base(path), ".") {
			h.t.Errorf("left behind on the host: %s", path)
		}
	}
}

// requireTool skips a test without the program.
func requireTool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path
	default:
		skips.Skipf(t, "%s is not installed", name)
	}
	return ""
}
