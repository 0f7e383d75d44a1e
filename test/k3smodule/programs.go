package k3smodule

// The programs: how they are built, and those that stand beside k3s or RKE2 on a host.

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// Tags are the build tags of k3s.
	Tags = "ctrd netcgo osusergo providerless urfave_cli_no_docs sqlite_omit_load_extension apparmor seccomp"
	// progressEvery is how often a build that compiles says how far it is.
	progressEvery = 15 * time.Second
)

// Programs builds what does not carry a version: the shim, runc, the CNI plugins and our own programs.
func (w *Workshop) Programs(ctx context.Context) error {
	if err := os.MkdirAll(w.Bin(), 0o755); err != nil {
		return err
	}
	static := []string{"CGO_ENABLED=0", "GOBIN=" + w.Bin()}
	plugins := []string{"install", "-trimpath", "-ldflags=-s -w"}
	for _, plugin := range []string{"main/bridge", "main/loopback", "ipam/host-local", "meta/portmap", "meta/bandwidth"} {
		plugins = append(plugins, "github.com/containernetworking/plugins/plugins/"+plugin+"@"+pluginsModule)
	}
	builds := []GoCommand{
		{What: "containerd's shim", Dir: w.Src(), Env: static, Args: []string{
			"build", "-mod=mod", "-trimpath", "-tags", Tags, "-ldflags=-s -w", "-o", w.Bin(), "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"}},
		{What: "the CNI plugins", Dir: w.Dir, Env: static, Args: plugins},
		// What runc does between fork and exec is C, and pods have a seccomp profile. Static, because hosts have another C library.
		{What: "runc", Dir: w.Dir, Env: []string{"CGO_ENABLED=1", "GOBIN=" + w.Bin()}, Args: []string{
			"install", "-trimpath", "-tags", "netgo osusergo seccomp", `-ldflags=-s -w -extldflags "-static"`, runcModule}},
		{What: "our own programs", Dir: w.Module, Env: static, Args: []string{
			"install", "-trimpath", "-ldflags=-s -w", "./test/k3smodule/cni/flannel", "./test/k3smodule/pause", "./test/bed/engine/runc-dropcap"}},
	}
	for _, build := range builds {
		if err := w.Go(ctx, build); err != nil {
			return err
		}
	}
	return nil
}

// VersionFlags give a program made of k3s' packages, and the parts of Kubernetes in it, their version.
func (w *Workshop) VersionFlags(version string) string {
	flags := []string{
		"-X " + modulePath + "/pkg/version.Program=" + w.Program,
		"-X " + modulePath + "/pkg/version.Version=" + version,
		"-X " + modulePath + "/pkg/version.GitCommit=" + cmp.Or(w.Commit, moduleCommit[:8]),
		"-X " + modulePath + "/pkg/version.UpstreamGolang=" + goVersion(), // k3s exits when it was built with another one
	}
	for _, module := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for key, value := range map[string]string{
			"gitVersion": version, "gitMajor": "1", "gitMinor": strings.Split(version, ".")[1], "gitCommit": moduleCommit,
			"gitTreeState": "clean", "buildDate": "2025-09-05T19:56:03Z",
		} {
			flags = append(flags, "-X "+module+"."+key+"="+value)
		}
	}
	return strings.Join(flags, " ")
}

// goVersion is that of the go command, which may be another than the one this program was built with.
func goVersion() string {
	out, err := exec.Command("go", "env", "GOVERSION").Output()
	if err != nil {
		return "unknown" // the build that follows fails with a better reason
	}
	return strings.TrimSpace(string(out))
}

// GoCommand is one call of the go command.
type GoCommand struct {
	// What is built, for people to read.
	What string
	// Dir is where it runs.
	Dir string
	// Env is added to this process' environment.
	Env []string
	// Args are its arguments, the first one the subcommand.
	Args []string
}

// Go runs a go command at low priority, and says from time to time how many packages it has compiled.
func (w *Workshop) Go(ctx context.Context, g GoCommand) error {
	w.Say("%s: building %s", w.Product, g.What)
	args := append([]string{g.Args[0], "-v"}, g.Args[1:]...) // -v prints each package when its turn comes
	command := exec.CommandContext(ctx, "nice", append([]string{"-n", "10", "go"}, args...)...)
	command.Dir, command.Env = g.Dir, append(os.Environ(), g.Env...)
	output, err := command.StderrPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("build %s: %w", g.What, err)
	}
	said := w.follow(output, g.What)
	if err := command.Wait(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("build %s with `go %s`: %w; the end of its output:\n%s", g.What, g.Args[0], err, said)
	}
	return nil
}

// follow counts the packages that a go command prints, and keeps the end of everything else.
func (w *Workshop) follow(output interface{ Read([]byte) (int, error) }, what string) string {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<20)
	begin, last, compiled := time.Now(), time.Now(), 0
	var rest [][]byte
	for lines.Scan() {
		if line := lines.Bytes(); bytes.ContainsAny(line, " :\t") {
			rest = append(rest, bytes.Clone(line))
			rest = rest[max(0, len(rest)-40):]
			continue
		}
		compiled++
		if time.Since(last) >= progressEvery {
			last = time.Now()
			w.Say("%s: building %s: %d packages compiled in %s", w.Product, what, compiled, time.Since(begin).Round(time.Second))
		}
	}
	return string(bytes.Join(rest, []byte("\n")))
}
