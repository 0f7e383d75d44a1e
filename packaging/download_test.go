package packaging

// Where the agent and its uninstall script come from, and what is checked of them.

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A refused download leaves the installation that is there as it is.
func TestRefusedDownloads(t *testing.T) {
	ca := newAuthority(t, "drover")
	page := "<!doctype html><html><body>Welcome</body></html>"
	agent, script := "/assets/rancher-system-agent-"+runtime.GOARCH, "/assets/system-agent-uninstall.sh"
	binary := readFile(agentBinary)
	tests := []struct {
		name   string
		path   string
		answer http.HandlerFunc
		env    []string
		noSums bool
		want   []string
	}{
		{name: "page instead of the agent", path: agent, answer: say(200, page), noSums: true, want: []string{agent, "ELF"}},
		{name: "page instead of the agent, with checksums", path: agent, answer: say(200, page), want: []string{checksum([]byte(page)), checksum(binary)}},
		{name: "agent cut off", path: agent, answer: say(200, string(binary[:5000])), want: []string{checksum(binary[:5000]), checksum(binary)}},
		{name: "agent that does not run", path: agent, answer: say(200, string(binary[:5000])), noSums: true, want: []string{agent, "validate-connection"}},
		{name: "agent not there", path: agent, answer: say(404, "there is no such file"), want: []string{agent, "404 (there is no such file)"}},
		{name: "other checksum in the environment", env: []string{"CATTLE_AGENT_BINARY_CHECKSUM=" + checksum(nil)}, want: []string{agent, checksum(nil), checksum(binary)}},
		{name: "other script checksum in the environment", env: []string{"CATTLE_AGENT_UNINSTALL_CHECKSUM=" + checksum(nil)}, want: []string{script, checksum(nil)}},
		{name: "page instead of the uninstall script", path: script, answer: say(200, page), noSums: true, want: []string{script, "shell script"}},
		{name: "uninstall script cut off", path: script, answer: say(200, string(readFile(uninstallScript)[:1500])), noSums: true, want: []string{script}},
		{name: "connection info without a name", path: "/v3/connect/agent", answer: say(200, `{"namespace":"a","kubeConfig":"b"}`), want: []string{"validate-connection", "secretName must be set"}},
		{name: "connection info cut off", path: "/v3/connect/agent", answer: say(200, connectionInfo[:50]), want: []string{"validate-connection", "parse connection info"}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			oneShell(t, i, func(t *testing.T, sh shell) {
				s, h := newServer(t, ca), newHost(t, sh)
				const old = "/usr/local/bin/rancher-system-agent"
				h.write(h.root+old, "old", 0o755)
				h.write(h.root+"/var/lib/rancher/system-agent/etc/cattle-id", "id\n", 0o600)
				h.write(h.root+"/var/lib/rancher/system-agent/etc/config.yaml", "old", 0o600)
				if tt.noSums {
					s.on("/assets/sha256sum.txt", say(404, ""))
				}
				if tt.path != "" {
					s.on(tt.path, tt.answer)
				}
				h.env = tt.env
				modes, config := h.modes(), h.read("/var/lib/rancher/system-agent/etc/config.yaml")
				modes["/var/lib/rancher/system-agent/etc"] = "drwx------"
				res := h.join(s, "--worker")
				wantRefusal(t, res, append(tt.want, "nothing was replaced")...)
				if diff := cmp.Diff(modes, h.modes()); diff != "" {
					t.Errorf("files (-before +after):\n%s", diff)
				}
				if h.read(old) != "old" || config != h.read("/var/lib/rancher/system-agent/etc/config.yaml") || h.logged("systemctl") != nil {
					t.Error("the old agent was disturbed")
				}
				h.wantNoLeftovers()
			})
		})
	}
}

// A machine that registered, but could not get its agent, is the same machine at the next attempt.
func TestRegisteredOnce(t *testing.T) {
	s, h := newServer(t, newAuthority(t, "drover")), newHost(t, shells(t)[0])
	s.on("/assets/rancher-system-agent-"+runtime.GOARCH, say(404, ""))
	wantRefusal(t, h.join(s, "--worker"), "404")
	first := s.last("/v3/connect/agent").Get("X-Cattle-Id")
	s.on("/assets/rancher-system-agent-" + runtime.GOARCH)
	h.mustJoin(s, "--worker")
	if second := s.last("/v3/connect/agent").Get("X-Cattle-Id"); second != first {
		t.Errorf("the second attempt has the id %q, the first %q", second, first)
	}
}

func TestSources(t *testing.T) {
	ca, other := newAuthority(t, "drover"), newAuthority(t, "mirror")
	mirror := newServer(t, other)
	plain := httptest.NewServer(mirror)
	t.Cleanup(plain.Close)
	agentSum := checksum(readFile(agentBinary))
	tests := []struct {
		name string
		env  []string
		sums http.HandlerFunc
		want []string // the agent is taken from, as the output says
	}{
		{name: "server without checksums", sums: say(404, "no"), want: []string{"SRV/assets/rancher-system-agent-" + runtime.GOARCH}},
		{name: "server with pages for all", sums: say(200, "<html>"), want: []string{"SRV/assets/rancher-system-agent-" + runtime.GOARCH}},
		{name: "given checksum", env: []string{"CATTLE_AGENT_BINARY_CHECKSUM=" + strings.ToUpper(agentSum)}, want: []string{"SRV/assets/"}},
		{name: "given architecture", env: []string{"ARCH=armv7l"}, want: []string{"SRV/assets/rancher-system-agent-arm\n"}},
		{name: "given base", env: []string{"CATTLE_AGENT_BINARY_BASE_URL=" + mirror.URL + "/assets/"}, want: []string{mirror.URL + "/assets/rancher-system-agent-" + runtime.GOARCH, mirror.URL + "/assets/system-agent-uninstall.sh"}},
		{name: "given addresses", env: []string{
			"CATTLE_AGENT_BINARY_URL=" + mirror.URL + "/assets/rancher-system-agent-arm",
			"CATTLE_AGENT_UNINSTALL_URL=" + mirror.URL + "/assets/system-agent-uninstall.sh",
		}, want: []string{mirror.URL + "/assets/rancher-system-agent-arm\n", mirror.URL + "/assets/system-agent-uninstall.sh\n"}},
		{name: "http with checksum", env: []string{
			"CATTLE_AGENT_BINARY_URL=" + plain.URL + "/assets/rancher-system-agent-arm",
			"CATTLE_AGENT_BINARY_CHECKSUM=" + agentSum,
		}, want: []string{plain.URL + "/assets/rancher-system-agent-arm\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, h := newServer(t, ca), newHost(t, shells(t)[0])
			if tt.sums != nil {
				s.on("/assets/sha256sum.txt", tt.sums)
			}
			h.write(h.tools+"/known.pem", string(other.pem), 0o644)
			h.env = append(tt.env, "SSL_CERT_FILE="+h.tools+"/known.pem")
			res := h.mustJoin(s, "--worker")
			for _, want := range tt.want {
				want = strings.ReplaceAll(want, "SRV", s.URL)
				if !strings.Contains(res.stdout, "downloading "+want) {
					t.Errorf("no download of %s in:\n%s", want, res.stdout)
				}
			}
			if mirror.sawToken() {
				t.Error("the mirror got the token")
			}
		})
	}
}

func TestLocalFiles(t *testing.T) {
	eachShell(t, func(t *testing.T, sh shell) {
		h := newHost(t, sh)
		h.env = []string{"CATTLE_PRESERVE_WORKDIR=TRUE"}
		if res := h.installAlone(); res.code != 0 {
			t.Fatal(res.stderr)
		}
		if got := h.logged("curl"); got != nil {
			t.Errorf("nothing is to be asked for, but curl was: %q", got)
		}
		config := h.read("/var/lib/rancher/system-agent/etc/config.yaml")
		for _, line := range []string{"localEnabled: true\n", "remoteEnabled: false\n", "preserveWorkDirectory: true\n"} {
			if !strings.Contains(config, line) {
				t.Errorf("config.yaml has no %q:\n%s", line, config)
			}
		}
		if strings.Contains(config, "connectionInfoFile") {
			t.Errorf("config.yaml names a connection file:\n%s", config)
		}
		modes := h.modes()
		for _, path := range []string{"/usr/local/bin/rancher-system-agent", "/usr/local/bin/rancher-system-agent-uninstall.sh"} {
			if modes[path] != "-rwxr-xr-x" {
				t.Errorf("%s has mode %s", path, modes[path])
			}
		}
	})
}

// An agent that cannot notify systemd must not be waited for.
func TestAgentWithoutNotify(t *testing.T) {
	s, h := newServer(t, newAuthority(t, "drover")), newHost(t, shells(t)[0])
	silent := bytes.ReplaceAll(readFile(agentBinary), []byte("NOTIFY_SOCKET"), []byte("NOTIFY_NOBODY"))
	s.on("/assets/sha256sum.txt", say(404, ""))
	s.on("/assets/rancher-system-agent-"+runtime.GOARCH, say(200, string(silent)))
	h.mustJoin(s, "--worker")
	unit := h.read("/etc/systemd/system/rancher-system-agent.service")
	if !strings.Contains(unit, "Type=simple\n") || strings.Contains(unit, "Watchdog") {
		t.Errorf("unit:\n%s", unit)
	}
}

func TestRetries(t *testing.T) {
	sh := shells(t)[0]
	s, h := newServer(t, newAuthority(t, "drover")), newHost(t, sh)
	ok := http.HandlerFunc(s.answer)
	s.on("/cacerts", say(502, ""), ok)
	s.on("/healthz", say(503, "starting", "Retry-After", "7"), say(429, "", "Retry-After", "4000"), ok)
	s.on("/v3/connect/agent", say(503, `{"message":"waiting for etcd"}`, "Retry-After", "soon"), say(500, "x", "Retry-After", "0"), ok)
	s.on("/assets/rancher-system-agent-"+runtime.GOARCH, say(503, ""), ok)
	h.env = []string{"CATTLE_REGISTRATION_TIMEOUT="}
	res := h.mustJoin(s, "--worker")
	naps := h.logged("sleep")
	want := []int{5, 7, 300, 5, 1, 5} // and by chance up to a quarter more
	if len(naps) != len(want) {
		t.Fatalf("pauses %q, want about %d", naps, want)
	}
	for i, text := range naps {
		if nap, err := strconv.Atoi(text); err != nil || nap < want[i] || nap > want[i]+want[i]/4 {
			t.Errorf("pause %d is of %s s, want %d and up to a quarter more", i, text, want[i])
		}
	}
	for _, want := range []string{
		fmt.Sprintf("waiting: getting the CA from %s/cacerts: it answered HTTP 502; next try in ", s.URL),
		"it answered HTTP 503 (starting); next try in ",
		fmt.Sprintf("waiting: registering at %s: it answered HTTP 503 (waiting for etcd)", s.URL),
	} {
		if !strings.Contains(res.stdout, want) {
			t.Errorf("the output does not say %q:\n%s", want, res.stdout)
		}
	}
}

func TestNoProxy(t *testing.T) {
	s := newServer(t, newAuthority(t, "drover"))
	tests := []struct {
		noProxy string
		direct  bool
	}{
		{"127.0.0.0/8", true},
		{"10.0.0.0/8, 127.0.0.1/32", true},
		{"10.0.0.0/8 0.0.0.0/0", true},
		{"*.example,10.0.0.0/8", false},
		{"127.0.0.2/32", false},
		{"127.0.0.0/33,127.0.0/8,1270.0.0.1/8,127.0.0.01/8,/8,127.0.0.0/", false},
		{"", false},
	}
	for i, tt := range tests {
		t.Run(tt.noProxy, func(t *testing.T) {
			oneShell(t, i, func(t *testing.T, sh shell) {
				h := newHost(t, sh)
				h.env = []string{"HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=" + tt.noProxy, "no_proxy=", "CATTLE_REGISTRATION_TIMEOUT=0"}
				// Of curl we only want to know its arguments; newer ones know networks themselves.
				h.tool("curl", `echo "$*" >>`+h.log+`/curl; exit 7`)
				wantRefusal(t, h.join(s, "--worker"))
				if got := strings.Contains(h.logged("curl")[0], "--noproxy *"); got != tt.direct {
					t.Errorf("direct = %v, want %v: %s", got, tt.direct, h.logged("curl")[0])
				}
			})
		})
	}
}

// Every architecture that a host may report leads to a file that a server may have.
func TestArchitectures(t *testing.T) {
	for machine, arch := range map[string]string{
		"amd64": "amd64", "x86_64": "amd64", "arm64": "arm64", "aarch64": "arm64", "s390x": "s390x", "armv7l": "arm", "": runtime.GOARCH,
	} {
		t.Run(machine, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, shells(t)[0])
			h.tool("curl", `echo "$*" >>`+h.log+`/curl; exit 22`)
			h.env = []string{
				"CATTLE_REMOTE_ENABLED=false", "CATTLE_LOCAL_ENABLED=true", "ARCH=" + machine,
				"CATTLE_AGENT_BINARY_BASE_URL=https://mirror.example/assets",
				"CATTLE_AGENT_UNINSTALL_LOCAL=true", "CATTLE_AGENT_UNINSTALL_LOCAL_LOCATION=" + h.tools + "/uninstall.sh",
			}
			h.write(h.tools+"/uninstall.sh", "#!/bin/sh\n", 0o644)
			want := "https://mirror.example/assets/rancher-system-agent-" + arch
			wantRefusal(t, h.install(), "cannot download "+want+":")
			if calls := h.logged("curl"); !strings.HasSuffix(calls[len(calls)-1], want) {
				t.Errorf("curl was called with %q", calls)
			}
		})
	}
}
