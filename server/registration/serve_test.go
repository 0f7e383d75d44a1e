package registration_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	drover "github.com/drover-project/drover"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
)

func TestPlainPaths(t *testing.T) {
	f := setUp(t, nil)
	for _, c := range []struct{ path, body, contentType string }{
		{"/healthz", "ok", "text/plain; charset=utf-8"},
		{"/ping", "pong", "text/plain; charset=utf-8"},
		{"/cacerts", caPEM, "text/plain; charset=utf-8"},
	} {
		a := f.get(t, http.MethodGet, c.path, nil)
		if a.Status != http.StatusOK || a.Body != c.body || a.Header.Get("Content-Type") != c.contentType {
			t.Errorf("%s: %d %q of type %q", c.path, a.Status, a.Body, a.Header.Get("Content-Type"))
		}
	}
	if a := f.get(t, http.MethodGet, "/rancherversion", nil); !strings.Contains(a.Body, `"Version":"v2.15.0-drover.0.1.0"`) || !strings.Contains(a.Body, `"RancherPrime":"false"`) {
		t.Errorf("/rancherversion: %s", a.Body)
	}
}

// TestCAProof is what an agent without a checksum does to trust a CA.
func TestCAProof(t *testing.T) {
	f := setUp(t, nil)
	sum := sha256.Sum256([]byte(f.token["lab"]))
	a := f.get(t, http.MethodGet, "/cacerts", map[string]string{
		"Authorization": "Bearer " + base64.StdEncoding.EncodeToString(sum[:]), "X-Cattle-Nonce": "n1",
	})
	mac := hmac.New(sha512.New, []byte(f.token["lab"]))
	fmt.Fprintf(mac, "n1\x00%s\x00", a.Body)
	if got, want := a.Header.Get("X-Cattle-Hash"), base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != want {
		t.Errorf("proof %q, want %q", got, want)
	}
	for name, header := range map[string]map[string]string{
		"plain token":   {"Authorization": "Bearer " + f.token["lab"], "X-Cattle-Nonce": "n1"},
		"no nonce":      {"Authorization": "Bearer " + base64.StdEncoding.EncodeToString(sum[:])},
		"unknown token": {"Authorization": "Bearer " + base64.StdEncoding.EncodeToString([]byte("x")), "X-Cattle-Nonce": "n1"},
	} {
		if a := f.get(t, http.MethodGet, "/cacerts", header); a.Status != http.StatusOK || a.Body != caPEM || a.Header.Get("X-Cattle-Hash") != "" {
			t.Errorf("%s: %d with proof %q", name, a.Status, a.Header.Get("X-Cattle-Hash"))
		}
	}
}

// TestInstallScript lets a shell read the header.
func TestInstallScript(t *testing.T) {
	f := setUp(t, nil)
	a := f.get(t, http.MethodGet, "/system-agent-install.sh", nil)
	header, ok := strings.CutSuffix(a.Body, string(drover.InstallScript))
	if !ok || a.Status != http.StatusOK || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain") {
		t.Fatalf("%d of type %q does not end with install.sh", a.Status, a.Header.Get("Content-Type"))
	}
	if !strings.HasPrefix(header, "#!/usr/bin/env sh\n") {
		t.Errorf("header %q", header)
	}
	sum := sha256.Sum256([]byte(caPEM))
	want := strings.Join([]string{"true", serverURL + "/assets", serverURL, hex.EncodeToString(sum[:])}, "\n") + "\n"
	out, err := exec.CommandContext(t.Context(), "sh", "-c", header+
		`printf '%s\n' "$STRICT_VERIFY" "$CATTLE_AGENT_BINARY_BASE_URL" "$CATTLE_SERVER" "$CATTLE_CA_CHECKSUM"`).CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("a shell reads %q (%v), want %q", out, err, want)
	}
	if err := f.settings.Set(t.Context(), "agent-tls-mode", "system-store"); err != nil {
		t.Fatal(err)
	}
	if a := f.get(t, http.MethodGet, "/system-agent-install.sh", nil); !strings.Contains(a.Body, "export STRICT_VERIFY='false'\n") {
		t.Error("strict although agent-tls-mode is system-store")
	}
}

func TestAssets(t *testing.T) {
	f := setUp(t, fstest.MapFS{
		"rancher-system-agent-amd64": {Data: []byte("binary")},
		"install.sh":                 {Data: []byte("not this one")},
		"sha256sum.txt":              {Data: []byte("nor this")},
		".secret":                    {Data: []byte("hidden")},
		"folder/file":                {Data: []byte("below")},
	})
	sum := func(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }
	sums := sum(drover.InstallScript) + "  install.sh\n" + sum([]byte("binary")) + "  rancher-system-agent-amd64\n" +
		sum(drover.InstallScript) + "  system-agent-install.sh\n" + sum(drover.UninstallScript) + "  system-agent-uninstall.sh\n"
	for _, c := range []struct {
		name, method, path string
		header             map[string]string
		status             int
		body               string
	}{
		{name: "agent", path: "rancher-system-agent-amd64", status: 200, body: "binary"},
		{name: "head", method: http.MethodHead, path: "rancher-system-agent-amd64", status: 200},
		{name: "range", path: "rancher-system-agent-amd64", header: map[string]string{"Range": "bytes=2-3"}, status: 206, body: "na"},
		{name: "script of this release", path: "install.sh", status: 200, body: string(drover.InstallScript)},
		{name: "uninstaller", path: "system-agent-uninstall.sh", status: 200, body: string(drover.UninstallScript)},
		{name: "checksums", path: "sha256sum.txt", status: 200, body: sums},
		{name: "unknown", path: "rancher-system-agent-s390x", status: 404},
		{name: "hidden", path: ".secret", status: 404},
		{name: "directory", path: "folder", status: 404},
		{name: "below a directory", path: "folder/file", status: 404},
		{name: "escaped slash", path: "folder%2Ffile", status: 404},
		{name: "parent", path: "..%2f..%2fetc%2fpasswd", status: 404},
		{name: "nothing", path: "", status: 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			method := c.method
			if method == "" {
				method = http.MethodGet
			}
			a := f.get(t, method, "/assets/"+c.path, c.header)
			if a.Status != c.status {
				t.Fatalf("%d %q, want %d", a.Status, a.Body, c.status)
			}
			if c.status == http.StatusNotFound {
				if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain") || strings.Contains(a.Body, "<") || !strings.Contains(a.Body, "there is no file") {
					t.Errorf("404 of type %q: %q", a.Header.Get("Content-Type"), a.Body)
				}
				return
			}
			if diff := cmp.Diff(c.body, a.Body); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestChecksumsFollowFiles: a replaced agent must not be reported with the sum of the old one.
func TestChecksumsFollowFiles(t *testing.T) {
	files := fstest.MapFS{"rancher-system-agent-amd64": {Data: []byte("old")}}
	f := setUp(t, files)
	before := f.get(t, http.MethodGet, "/assets/sha256sum.txt", nil).Body
	files["rancher-system-agent-amd64"] = &fstest.MapFile{Data: []byte("newer")}
	after := f.get(t, http.MethodGet, "/assets/sha256sum.txt", nil).Body
	sum := sha256.Sum256([]byte("newer"))
	if before == after || !strings.Contains(after, hex.EncodeToString(sum[:])+"  rancher-system-agent-amd64\n") {
		t.Errorf("after the change: %s", after)
	}
}

func TestJoinCommand(t *testing.T) {
	f := setUp(t, nil)
	modifyCluster(t, f, "lab", func(c *records.Cluster) {
		c.Spec.AgentEnvVars = []clusterspec.EnvVar{
			{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}, {Name: "EMPTY"}, {Name: "bad-name", Value: "x"},
			{Name: "ODD", Value: "a \"b\" $c `d` \\e"}, {Name: "BANG", Value: "it's!"},
		}
	})
	got, err := f.JoinCommand("c-m-lab00000")
	if err != nil {
		t.Fatal(err)
	}
	token, checksum := f.token["lab"], f.settings.CAChecksum()
	env := `HTTPS_PROXY="http://proxy:3128" ODD="a \"b\" \$c ` + "\\`d\\`" + ` \\e" BANG='it'\''s!' `
	rest := " https://drover.example:8443/system-agent-install.sh | sudo " + env + "sh -s - --server https://drover.example:8443 --label 'cattle.io/os=linux' --token " + token + " --ca-checksum " + checksum
	want := registration.JoinCommand{
		Token: token, NodeCommand: env + "curl -fL" + rest, InsecureNodeCommand: env + "curl --insecure -fL" + rest,
		Line: "{ echo CATTLE_TOKEN=" + token + "; echo " + base64.StdEncoding.EncodeToString([]byte(f.settings.CACerts())) + " | base64 -d | " + env +
			"curl -fL --cacert /dev/stdin " + serverURL + "/system-agent-install.sh; } | sudo " + env + "sh -s - --server " + serverURL +
			" --label 'cattle.io/os=linux' --ca-checksum " + checksum,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	plain, err := f.JoinCommand("c-m-other000")
	if err != nil {
		t.Fatal(err)
	}
	if want := "curl -fL " + serverURL + "/system-agent-install.sh | sudo sh -s - --server " + serverURL + " --label 'cattle.io/os=linux' --token " + f.token["other"] + " --ca-checksum " + checksum; plain.NodeCommand != want {
		t.Errorf("without variables:\n%s, want\n%s", plain.NodeCommand, want)
	}
}

// TestJoinCommandQuoting runs the variables of a command through a shell.
func TestJoinCommandQuoting(t *testing.T) {
	f := setUp(t, nil)
	value := "a \"b\" $HOME `id` \\n 'c' ; * $(id)"
	modifyCluster(t, f, "lab", func(c *records.Cluster) {
		c.Spec.AgentEnvVars = []clusterspec.EnvVar{{Name: "V", Value: value}}
	})
	join, err := f.JoinCommand("c-m-lab00000")
	if err != nil {
		t.Fatal(err)
	}
	assignment, _, _ := strings.Cut(join.NodeCommand, "curl -fL")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", assignment+` sh -c 'printf %s "$V"'`).CombinedOutput()
	if err != nil || string(out) != value {
		t.Errorf("a shell reads %q (%v), want %q", out, err, value)
	}
}

func TestJoinCommandErrors(t *testing.T) {
	f := setUp(t, nil)
	if _, err := f.JoinCommand("c-m-unknown0"); err == nil || !strings.Contains(err.Error(), "no valid registration token") {
		t.Errorf("unknown cluster: %v", err)
	}
	without := registration.New(registration.Options{State: f.state, Settings: noServerURL(f)})
	join, err := without.JoinCommand("c-m-lab00000")
	if err == nil || err.Error() != "setting server-url is empty" {
		t.Errorf("no server-url: %v", err)
	}
	if diff := cmp.Diff(registration.JoinCommand{Token: f.token["lab"]}, join); diff != "" {
		t.Error(diff)
	}

	key := "c-m-lab00000/" + registration.DefaultToken
	if _, err := f.state.RegistrationTokens.Modify(t.Context(), key, func(r records.RegistrationToken) (records.RegistrationToken, error) {
		r.Expires = f.clock.Now()
		return r, nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.JoinCommand("c-m-lab00000"); err == nil {
		t.Error("a command with an expired token")
	}
	second := records.RegistrationToken{ClusterID: "c-m-lab00000", ClusterNamespace: "fleet-default", ClusterName: "lab", Name: "second", Token: "t2"}
	if _, err := f.state.RegistrationTokens.Create(t.Context(), second.Key(), second); err != nil {
		t.Fatal(err)
	}
	if join, err := f.JoinCommand("c-m-lab00000"); err != nil || join.Token != "t2" {
		t.Errorf("with a second token: %+v, %v", join, err)
	}
}
