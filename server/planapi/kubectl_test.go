package planapi_test

import (
	"bufio"
	"context"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-project/drover/test/skips"
)

// kubectl is a kubectl with a kubeconfig for the fixture.
type kubectl struct {
	t    *testing.T
	path string
	env  []string
}

func (f *fixture) kubectl(t *testing.T, token string) kubectl {
	t.Helper()
	path, err := exec.LookPath("kubectl")
	if err != nil {
		skips.Skip(t, "there is no kubectl in PATH; the other tests send what it sends")
	}
	dir := t.TempDir()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{
		Server: f.server.URL, TLSServerName: "example.com",
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw}),
	}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: namespace}
	config.CurrentContext = "x"
	if err := clientcmd.WriteToFile(*config, filepath.Join(dir, "config")); err != nil {
		t.Fatal(err)
	}
	return kubectl{t, path, append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "config"), "HOME="+dir)}
}

func (k kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, k.path, args...)
	c.Env = k.env
	return c
}

// run runs kubectl, which must succeed and print all of these.
func (k kubectl) run(args []string, prints ...string) {
	k.t.Helper()
	out, err := k.command(k.t.Context(), args...).CombinedOutput()
	if err != nil {
		k.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, text := range prints {
		if !strings.Contains(string(out), text) {
			k.t.Errorf("kubectl %s printed\n%s\nwithout %q", strings.Join(args, " "), out, text)
		}
	}
}

// TestKubectl is an administrator at work.
func TestKubectl(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	k := f.kubectl(t, "admin")
	f.set(t, oneKey, "plan", "{}", "plan-state", "pending")
	name := one + suffix
	stored := func(key, want string) {
		t.Helper()
		if got := string(f.stored(t, oneKey).Value.Data[key]); got != want {
			t.Errorf("data %s is %q, want %q", key, got, want)
		}
	}
	k.run([]string{"get", "secrets"}, one+suffix, two+suffix)
	k.run([]string{"get", "secrets", "-A", "-l", "rke.cattle.io/machine-name=" + one}, name)
	k.run([]string{"get", "secret", name, "-o", "yaml"}, "plan: e30=", "type: rke.cattle.io/machine-plan", "uid: uid-"+one)
	k.run([]string{"get", "secret", name, "-o", "jsonpath={.data.plan-state}"}, *b64("pending"))
	k.run([]string{"describe", "secret", name}, "plan-state:  7 bytes", "Type:  rke.cattle.io/machine-plan")
	k.run([]string{"patch", "secret", name, "-p", `{"stringData":{"a":"1"}}`}, "patched")
	stored("a", "1")
	k.run([]string{"patch", "secret", name, "--type=merge", "-p", `{"data":{"a":"Mg=="}}`}, "patched")
	stored("a", "2")
	k.run([]string{"patch", "secret", name, "--type=json", "-p", `[{"op":"replace","path":"/data/a","value":"Mw=="}]`}, "patched")
	stored("a", "3")
	k.run([]string{"annotate", "secret", name, "x=y"}, "annotated")
	k.run([]string{"label", "secret", name, "x=y"}, "labeled")
	if s := f.stored(t, oneKey).Value; s.Annotations["x"] != "y" || s.Labels["x"] != "y" {
		t.Errorf("annotations %v, labels %v", s.Annotations, s.Labels)
	}
	editor := filepath.Join(t.TempDir(), "editor")
	if err := os.WriteFile(editor, []byte("#!/bin/sh\nsed -i 's/a: Mw==/a: NA==/' \"$1\"\n"), 0o700); err != nil { // a program
		t.Fatal(err)
	}
	edit := k
	edit.env = append(edit.env, "KUBE_EDITOR="+editor)
	edit.run([]string{"edit", "secret", name}, "edited")
	stored("a", "4")
	k.run([]string{"api-resources"}, "secrets")
	k.run([]string{"version"}, "v1.34.0+drover")

	for _, args := range [][]string{{"delete", "secret", name}, {"create", "secret", "generic", "x"}, {"get", "pods"}} {
		if out, err := k.command(t.Context(), args...).CombinedOutput(); err == nil || strings.Contains(string(out), "panic") {
			t.Errorf("kubectl %s succeeded: %s", strings.Join(args, " "), out)
		}
	}
	if out, _ := k.command(t.Context(), "delete", "secret", name).CombinedOutput(); !strings.Contains(string(out), "lives and ends with its machine") {
		t.Errorf("deletion is refused without the reason: %s", out)
	}
	k.watches(f, name)
}

// watches runs "get -w" until it has shown a change.
func (k kubectl) watches(f *fixture, name string) {
	t := k.t
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := k.command(ctx, "get", "secrets", "-w", "-o", `jsonpath={.metadata.name} {.data.watched}{"\n"}`, "--field-selector", "metadata.name="+name)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != name+" " {
		t.Fatalf("first it shows %q", lines.Text())
	}
	f.set(t, oneKey, "watched", "now")
	if !lines.Scan() || lines.Text() != name+" "+*b64("now") {
		t.Errorf("then it shows %q", lines.Text())
	}
	cancel()
	_ = c.Wait() // it was ended by us
}

// TestKubectlOfMachine: the token of a host is of no use for more than its own Secret.
func TestKubectlOfMachine(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	k := f.kubectl(t, one)
	k.run([]string{"get", "secret", one + suffix}, one+suffix)
	out, err := k.command(t.Context(), "get", "secrets").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Forbidden") {
		t.Errorf("%v: %s", err, out)
	}
}
