package realk3s

// The programs: what stands in a release's data directory beside k3s itself.

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	serverTags = "ctrd netcgo osusergo providerless urfave_cli_no_docs sqlite_omit_load_extension apparmor seccomp"
	// progressEvery is how often a build that compiles says how far it is.
	progressEvery = 15 * time.Second
)

// binDir has the programs that both versions share.
func (b *builder) binDir() string { return filepath.Join(b.dir, "bin") }

// programs builds what does not carry a version of k3s.
func (b *builder) programs(ctx context.Context) error {
	if err := os.MkdirAll(b.binDir(), 0o755); err != nil {
		return err
	}
	static := []string{"CGO_ENABLED=0", "GOBIN=" + b.binDir()}
	plugins := []string{"install", "-trimpath", "-ldflags=-s -w"}
	for _, plugin := range []string{"main/bridge", "main/loopback", "ipam/host-local", "meta/portmap", "meta/bandwidth"} {
		plugins = append(plugins, "github.com/containernetworking/plugins/plugins/"+plugin+"@"+pluginsModule)
	}
	builds := []goCommand{
		{what: "containerd's shim", dir: b.src, env: static, args: []string{
			"build", "-mod=mod", "-trimpath", "-tags", serverTags, "-ldflags=-s -w", "-o", b.binDir(), "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"}},
		{what: "the CNI plugins", dir: b.dir, env: static, args: plugins},
		// What runc does between fork and exec is C, and pods have a seccomp profile. Static, because hosts have another C library.
		{what: "runc", dir: b.dir, env: []string{"CGO_ENABLED=1", "GOBIN=" + b.binDir()}, args: []string{
			"install", "-trimpath", "-tags", "netgo osusergo seccomp", `-ldflags=-s -w -extldflags "-static"`, runcModule}},
		{what: "our own programs", dir: b.Module, env: static, args: []string{
			"install", "-trimpath", "-ldflags=-s -w", "./test/realk3s/cni/flannel", "./test/realk3s/pause", "./test/bed/engine/runc-dropcap"}},
	}
	for _, build := range builds {
		if err := b.run(ctx, build); err != nil {
			return err
		}
	}
	return nil
}

// server builds k3s of a version, without what it unpacks, to the path out.
func (b *builder) server(ctx context.Context, version, out string) error {
	return b.run(ctx, goCommand{
		what: "k3s " + version, dir: b.src, env: []string{"CGO_ENABLED=0"},
		args: []string{"build", "-trimpath", "-tags", serverTags, "-ldflags=-s -w " + versionFlags(version), "-o", out, "./cmd/server"},
	})
}

// components builds etcd and kube-apiserver as programs of their own.
func (b *builder) components(ctx context.Context) error {
	source, err := os.ReadFile(filepath.Join(b.Module, "test/realk3s/components/main.go"))
	if err != nil {
		return err
	}
	source = bytes.Replace(source, []byte("//go:build ignore\n"), nil, 1) // drover's own module does not have what it imports
	if err := writeFile(filepath.Join(b.src, "cmd/components/main.go"), source, 0o644); err != nil {
		return err
	}
	return b.run(ctx, goCommand{
		what: "etcd and kube-apiserver", dir: b.src, env: []string{"CGO_ENABLED=0"},
		args: []string{"build", "-trimpath", "-tags", serverTags, "-ldflags=-s -w " + versionFlags(Version), "-o", filepath.Join(b.dir, "components"), "./cmd/components"},
	})
}

// versionFlags give k3s and the parts of Kubernetes in it their version.
func versionFlags(version string) string {
	flags := []string{
		"-X " + modulePath + "/pkg/version.Version=" + version,
		"-X " + modulePath + "/pkg/version.GitCommit=" + moduleCommit[:8],
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

// goCommand is one call of the go command.
type goCommand struct {
	what, dir string
	env, args []string
}

// run runs a go command at low priority, and says from time to time how many packages it has compiled.
func (b *builder) run(ctx context.Context, g goCommand) error {
	b.Say("k3s: building %s", g.what)
	args := append([]string{g.args[0], "-v"}, g.args[1:]...) // -v prints each package when its turn comes
	command := exec.CommandContext(ctx, "nice", append([]string{"-n", "10", "go"}, args...)...)
	command.Dir, command.Env = g.dir, append(os.Environ(), g.env...)
	output, err := command.StderrPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("build %s: %w", g.what, err)
	}
	said := b.follow(output, g.what)
	if err := command.Wait(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("build %s with `go %s`: %w; the end of its output:\n%s", g.what, g.args[0], err, said)
	}
	return nil
}

// follow counts the packages that a go command prints, and keeps the end of everything else.
func (b *builder) follow(output interface{ Read([]byte) (int, error) }, what string) string {
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
			b.Say("k3s: building %s: %d packages compiled in %s", what, compiled, time.Since(begin).Round(time.Second))
		}
	}
	return string(bytes.Join(rest, []byte("\n")))
}
