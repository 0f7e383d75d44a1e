package registration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/settings"
)

// pasted is what came of a line that a person pasted into a shell.
type pasted struct {
	arguments string // of every program, one a line
	installed string // what the script or the container got: token, variable and arguments
	authority string // what curl trusts
}

// paste runs a line in a shell, with programs in the place of sudo, curl, docker and sh that
// write down what they get.
func paste(t *testing.T, line, script string) pasted {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"sudo": `while case $1 in -*) ;; *) false ;; esac; do shift; done; exec env "$@"`,
		"curl": `cat >"$DIR/authority"; [ -s "$DIR/script" ] || exit 22; cat "$DIR/script"`,
		"docker": `for a; do case $a in -e) next=1 ;; CATTLE_TOKEN) [ "$next" = 1 ] && given=$CATTLE_TOKEN ;; *) next=0 ;; esac; done
echo "$given" >"$DIR/installed"`,
		"sh": `exec /bin/sh "$@"`,
	} {
		tool := "#!/bin/sh\necho \"" + name + " $*\" >>\"$DIR/arguments\"\n" + text + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(tool), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "script"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh")
	cmd.Stdin = strings.NewReader(line + "\n")
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "DIR=" + dir}
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	return pasted{arguments: read("arguments"), installed: read("installed"), authority: read("authority")}
}

// TestAPastedLine: the token arrives, and is in the arguments of no program on the way.
func TestAPastedLine(t *testing.T) {
	const script = `echo "$CATTLE_TOKEN $NAME $*" >"$DIR/installed"` + "\n"
	f := setUp(t, nil)
	modifyCluster(t, f, "lab", func(c *records.Cluster) {
		c.Spec.AgentEnvVars = []clusterspec.EnvVar{{Name: "NAME", Value: "its | sudo value"}}
	})
	join, err := f.JoinCommand("c-m-lab00000")
	if err != nil {
		t.Fatal(err)
	}
	got := paste(t, join.Line+" --worker", script)
	want := f.token["lab"] + " its | sudo value --server " + serverURL + " --label cattle.io/os=linux --ca-checksum " + f.settings.CAChecksum() + " --worker"
	if got.installed != want {
		t.Errorf("install.sh got %q, want %q", got.installed, want)
	}
	if got.authority != strings.TrimSpace(caPEM) {
		t.Errorf("curl trusts %q", got.authority)
	}
	hides(t, got, "curl -fL", f.token["lab"])
	if got := paste(t, join.Line+" --worker", ""); got.installed != "" {
		t.Errorf("curl fails, and the shell runs %q", got.installed)
	}
}

// TestAPastedLineOfDockerHosts: the same for the node agent, which has the token in its environment.
func TestAPastedLineOfDockerHosts(t *testing.T) {
	f := dockyard(t)
	join, err := f.JoinCommand("c-m-lab00000")
	if err != nil {
		t.Fatal(err)
	}
	got := paste(t, join.Line+" --worker", "")
	if got.installed != f.token["lab"] {
		t.Errorf("the container gets the token %q", got.installed)
	}
	hides(t, got, "docker run -d", f.token["lab"])
	for _, want := range []string{"HTTPS_PROXY=http://proxy:3128", "--server " + serverURL, "--worker"} {
		if !strings.Contains(got.arguments, want) {
			t.Errorf("docker does not get %s: %s", want, got.arguments)
		}
	}
}

func hides(t *testing.T, got pasted, ran, token string) {
	t.Helper()
	if !strings.Contains(got.arguments, ran) {
		t.Errorf("the arguments of %s were not seen: %s", ran, got.arguments)
	}
	if strings.Contains(got.arguments, token) {
		t.Errorf("the token is in the arguments of a program: %s", got.arguments)
	}
}

// TestALineWithoutAnAuthority is for servers with a public certificate: curl trusts the system's.
func TestALineWithoutAnAuthority(t *testing.T) {
	f := setUp(t, nil)
	public := registration.New(registration.Options{
		State: f.state, Now: f.clock.Now, Settings: settings.New(f.state.Settings, func(string) string { return "" }, settings.Defaults{ServerURL: serverURL}),
	})
	join, err := public.JoinCommand("c-m-lab00000")
	if err != nil {
		t.Fatal(err)
	}
	if want := "{ echo CATTLE_TOKEN=" + f.token["lab"] + "; curl -fL " + serverURL; !strings.HasPrefix(join.Line, want) {
		t.Errorf("%s, want %s…", join.Line, want)
	}
}
