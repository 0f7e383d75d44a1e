package packaging

// What a good run does: requests, headers, files, modes, order.

import (
	"net/http"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/test/skips"
)

func TestJoin(t *testing.T) {
	ca := newAuthority(t, "drover")
	eachShell(t, func(t *testing.T, sh shell) {
		s, h := newServer(t, ca), newHost(t, sh)
		res := h.mustJoin(s, "--etcd", "--controlplane", "--worker")

		wantRequests := []string{
			"/cacerts", "/healthz", "/v3/connect/agent",
			"/assets/sha256sum.txt", "/assets/system-agent-uninstall.sh", "/assets/rancher-system-agent-" + runtime.GOARCH,
		}
		if diff := cmp.Diff(wantRequests, s.paths()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		wantModes := map[string]string{
			"/etc":                "drwxr-xr-x",
			"/etc/systemd":        "drwxr-xr-x",
			"/etc/systemd/system": "drwxr-xr-x",
			"/etc/systemd/system/rancher-system-agent.env":     "-rw-------",
			"/etc/systemd/system/rancher-system-agent.service": "-rw-r--r--",
			"/usr":                                "drwxr-xr-x",
			"/usr/local":                          "drwxr-xr-x",
			"/usr/local/bin":                      "drwxr-xr-x",
			"/usr/local/bin/rancher-system-agent": "-rwxr-xr-x",
			"/usr/local/bin/rancher-system-agent-uninstall.sh": "-rwxr-xr-x",
			"/var":                             "drwxr-xr-x",
			"/var/lib":                         "drwxr-xr-x",
			"/var/lib/rancher":                 "drwxr-xr-x",
			"/var/lib/rancher/agent":           "drwx------",
			"/var/lib/rancher/agent/interlock": "drwx------",
			"/var/lib/rancher/agent/rancher2_connection_info.json": "-rw-------",
			"/var/lib/rancher/system-agent":                        "drwxr-xr-x",
			"/var/lib/rancher/system-agent/etc":                    "drwx------",
			"/var/lib/rancher/system-agent/etc/cattle-id":          "-rw-------",
			"/var/lib/rancher/system-agent/etc/config.yaml":        "-rw-------",
		}
		if diff := cmp.Diff(wantModes, h.modes()); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		wantConfig := `workDirectory: /var/lib/rancher/agent/work
localEnabled: false
localPlanDirectory: /var/lib/rancher/agent/plans
appliedPlanDirectory: /var/lib/rancher/agent/applied
remoteEnabled: true
connectionInfoFile: /var/lib/rancher/agent/rancher2_connection_info.json
interlockDirectory: /var/lib/rancher/agent/interlock
preserveWorkDirectory: false
`
		if diff := cmp.Diff(wantConfig, h.read("/var/lib/rancher/system-agent/etc/config.yaml")); diff != "" {
			t.Errorf("config.yaml (-want +got):\n%s", diff)
		}
		if got := h.read("/var/lib/rancher/agent/rancher2_connection_info.json"); got != connectionInfo {
			t.Errorf("connection info = %q", got)
		}
		if h.read("/usr/local/bin/rancher-system-agent") != string(readFile(agentBinary)) {
			t.Error("the installed agent is not the one that was served")
		}
		if diff := cmp.Diff(string(readFile("systemd/rancher-system-agent.service")),
			h.read("/etc/systemd/system/rancher-system-agent.service")); diff != "" {
			t.Errorf("packaging/systemd/rancher-system-agent.service and install.sh differ (-package +install.sh):\n%s", diff)
		}
		wantActions := []string{
			"is-active rancher-system-agent.service",
			"daemon-reload", "enable rancher-system-agent.service", "restart rancher-system-agent.service",
		}
		if diff := cmp.Diff(wantActions, h.logged("systemctl")); diff != "" {
			t.Errorf("systemctl (-want +got):\n%s", diff)
		}
		for _, next := range []string{"systemctl status rancher-system-agent", "journalctl"} {
			if !strings.Contains(res.stdout, next) {
				t.Errorf("the output does not say what to do next (%s): %s", next, res.stdout)
			}
		}
		h.wantNoLeftovers()
	})
}

// tokenLine is what drover's join command writes before the script.
const tokenLine = "CATTLE_TOKEN=" + testToken + "\n"

// The token comes as a line before the script, and is in no argument and no environment of what
// the script starts.
func TestTokenOnStandardInput(t *testing.T) {
	s := newServer(t, newAuthority(t, "drover"))
	eachShell(t, func(t *testing.T, sh shell) {
		h := newHost(t, sh)
		for _, tool := range []string{"sed", "tr", "head", "mktemp", "grep"} {
			actual, err := exec.LookPath(tool)
			if err != nil {
				t.Fatal(err)
			}
			h.tool(tool, `echo "${CATTLE_TOKEN:+environment: $CATTLE_TOKEN }$*" >>`+h.log+`/others
exec `+actual+` "$@"`)
		}
		res := h.run([]byte(tokenLine+string(readFile(installScript))), "--server", s.URL, "--ca-checksum", checksum(s.ca.pem), "--worker")
		if res.code != 0 {
			t.Fatal(res.stderr)
		}
		if got := s.last("/v3/connect/agent").Get("Authorization"); got != "Bearer "+testToken {
			t.Errorf("the server got %q", got)
		}
		seen := append(h.logged("curl"), h.logged("others")...)
		if len(seen) < 5 {
			t.Errorf("only %d programs were seen", len(seen))
		}
		for _, line := range seen {
			if strings.Contains(line, testToken) {
				t.Errorf("a program gets the token: %s", line)
			}
		}
	})
}

// Other users read /proc/*/cmdline; a pin holds for every request but the one that fetches it.
func TestSecretsAndPin(t *testing.T) {
	s := newServer(t, newAuthority(t, "drover"))
	eachShell(t, func(t *testing.T, sh shell) {
		h := newHost(t, sh)
		h.env = append(h.env, "DEBUG=1", "CATTLE_TOKEN="+testToken)
		res := h.install("--server", s.URL, "--ca-checksum", checksum(s.ca.pem), "--worker")
		if res.code != 0 {
			t.Fatal(res.stderr)
		}
		if !strings.Contains(res.stderr, "prove_server") || !strings.Contains(res.stderr, "SSL connection") {
			t.Error("DEBUG=1 shows neither the shell's nor curl's doing")
		}
		for _, text := range append(h.logged("curl"), res.stdout, res.stderr) {
			if strings.Contains(text, testToken) {
				t.Errorf("the token is visible in: %.2000s", text)
			}
		}
		for _, line := range h.logged("headers") {
			if !strings.HasPrefix(line, "-rw-------") {
				t.Errorf("curl's header file is open to others: %s", line)
			}
		}
		if len(h.logged("headers")) != 1 {
			t.Errorf("requests with the token: %d, want 1", len(h.logged("headers")))
		}
		for _, line := range h.logged("curl") {
			insecure := strings.Contains(line, "--insecure") || strings.Contains(line, " -k")
			pinned := strings.Contains(line, "--cacert ") && strings.Contains(line, "--capath ")
			if unverified := strings.HasSuffix(line, "/cacerts"); insecure != unverified || pinned == unverified {
				t.Errorf("how the server is verified: %s", line)
			}
			if !strings.HasPrefix(line, "-q ") {
				t.Errorf("a .curlrc is obeyed: %s", line)
			}
		}
	})
}

// TestProxyPasswordIsNotTraced: what DEBUG=1 prints is kept in the logs of clouds.
func TestProxyPasswordIsNotTraced(t *testing.T) {
	s := newServer(t, newAuthority(t, "drover"))
	const proxy = "http://me:hush-password@127.0.0.1:1"
	for i, noProxy := range []string{"127.0.0.1", ""} {
		oneShell(t, i, func(t *testing.T, sh shell) {
			h := newHost(t, sh)
			h.env = []string{"DEBUG=1", "HTTPS_PROXY=" + proxy, "HTTP_PROXY=" + proxy, "NO_PROXY=" + noProxy, "no_proxy=" + noProxy, "CATTLE_REGISTRATION_TIMEOUT=0"}
			for range 2 { // the second time there is an environment file already
				res := h.join(s, "--worker")
				if (res.code == 0) != (noProxy != "") {
					t.Fatalf("ended with %d: %s", res.code, res.stderr)
				}
				if strings.Contains(res.stdout+res.stderr, "hush-password") {
					t.Error("the password of the proxy is visible")
				}
			}
			if noProxy != "" && !strings.Contains(h.read("/etc/systemd/system/rancher-system-agent.env"), "HTTPS_PROXY="+proxy) {
				t.Error("the proxy is not kept")
			}
		})
	}
}

func TestHeaders(t *testing.T) {
	ca := newAuthority(t, "drover")
	tests := []struct {
		name string
		args []string
		env  []string
		want map[string]string // of the headers that vary; absent means not sent
	}{
		{
			name: "short role flags", args: []string{"-e", "-p", "-w"},
			want: map[string]string{"Role-Etcd": "true", "Role-Control-Plane": "true", "Role-Worker": "true"},
		},
		{
			name: "all roles", args: []string{"-a"},
			want: map[string]string{"Role-Etcd": "true", "Role-Control-Plane": "true", "Role-Worker": "true"},
		},
		{
			name: "roles from the environment", env: []string{"CATTLE_ROLE_ETCD=true", "CATTLE_ROLE_CONTROLPLANE=True"},
			want: map[string]string{"Role-Etcd": "true", "Role-Control-Plane": "true", "Role-Worker": "false"},
		},
		{
			name: "no roles clears", args: []string{"--etcd", "--no-roles"}, env: []string{"CATTLE_ROLE_WORKER=true"},
			want: map[string]string{"Role-Etcd": "false", "Role-Control-Plane": "false", "Role-Worker": "false"},
		},
		{
			name: "none wins in the environment", env: []string{"CATTLE_ROLE_NONE=true", "CATTLE_ROLE_WORKER=true"},
			want: map[string]string{"Role-Etcd": "false", "Role-Control-Plane": "false", "Role-Worker": "false"},
		},
		{
			name: "a role flag wins over none", args: []string{"--worker"}, env: []string{"CATTLE_ROLE_NONE=true"},
			want: map[string]string{"Role-Etcd": "false", "Role-Control-Plane": "false", "Role-Worker": "true"},
		},
		{
			name: "names and addresses",
			args: []string{"-w", "-n", "node-1", "--address", "ipify", "-i", "10.0.0.7"},
			want: map[string]string{
				"Role-Etcd": "false", "Role-Control-Plane": "false", "Role-Worker": "true",
				"Node-Name": "node-1", "Address": "ipify", "Internal-Address": "10.0.0.7",
			},
		},
		{
			name: "interfaces",
			args: []string{"-w", "--node-name", "node-1", "--address", "ens3", "--internal-address", "eth9"},
			want: map[string]string{
				"Role-Etcd": "false", "Role-Control-Plane": "false", "Role-Worker": "true",
				"Node-Name": "node-1", "Address": "192.0.2.10", "Internal-Address": "eth9",
			},
		},
		{
			name: "labels and taints repeat and join",
			args: []string{
				"-w", "-l", "cattle.io/os=linux", "--label", "empty=", "--taint", "a=b:NoSchedule", "--taints", "c=:NoExecute",
			},
			env: []string{"CATTLE_LABELS=zone=a"},
			want: map[string]string{
				"Role-Etcd": "false", "Role-Control-Plane": "false", "Role-Worker": "true",
				"Labels": "zone=a,cattle.io/os=linux,empty=", "Taints": "a=b:NoSchedule,c=:NoExecute",
			},
		},
		{
			name: "variables",
			env: []string{
				"CATTLE_ROLE_WORKER=true", "CATTLE_NODE_NAME=n2", "CATTLE_ADDRESS=a.example", "CATTLE_INTERNAL_ADDRESS=fd00::1",
				"CATTLE_LABELS=a=b,c=d", "CATTLE_TAINTS=e=f:PreferNoSchedule",
			},
			want: map[string]string{
				"Role-Etcd": "false", "Role-Control-Plane": "false", "Role-Worker": "true",
				"Node-Name": "n2", "Address": "a.example", "Internal-Address": "fd00::1",
				"Labels": "a=b,c=d", "Taints": "e=f:PreferNoSchedule",
			},
		},
		{
			name: "quotes reach the server as they are", args: []string{"-w", "--label", `a="b\c"`},
			want: map[string]string{
				"Role-Etcd": "false", "Role-Control-Plane": "false", "Role-Worker": "true", "Labels": `a="b\c"`,
			},
		},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			oneShell(t, i, func(t *testing.T, sh shell) {
				s, h := newServer(t, ca), newHost(t, sh)
				h.env = append(slices.Clone(tt.env), "CATTLE_ID=machine-1")
				h.write(h.root+"/sys/class/net/ens3/address", "", 0o644)
				h.tool("ip", `echo "2: ens3    inet 192.0.2.10/24 brd 192.0.2.255 scope global ens3"; echo "2: ens3    inet 192.0.2.11/24"`)
				if sh.ownTools && slices.Contains(tt.args, "ens3") {
					skips.Skip(t, "this shell asks the real interfaces")
				}
				// The headers are all that matters here, so the run ends there.
				s.on("/v3/connect/agent", say(http.StatusForbidden, "seen"))
				h.join(s, tt.args...)
				want := http.Header{"X-Cattle-Id": {"machine-1"}}
				for name, value := range tt.want {
					want.Set("X-Cattle-"+name, value)
				}
				got := http.Header{}
				for name, values := range s.last("/v3/connect/agent") {
					if strings.HasPrefix(name, "X-Cattle-") {
						got[name] = values
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("headers (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestServedScript(t *testing.T) {
	ca := newAuthority(t, "drover")
	eachShell(t, func(t *testing.T, sh shell) {
		s, h := newServer(t, ca), newHost(t, sh)
		header := "#!/usr/bin/env sh\nexport HTTP_PROXY='http://proxy.example:3128'\nexport STRICT_VERIFY='true'\n" +
			`CATTLE_AGENT_BINARY_BASE_URL="` + s.URL + `/assets"` + "\nCATTLE_SERVER=https://127.0.0.1:1\n" +
			`CATTLE_CA_CHECKSUM="` + strings.Repeat("0", 64) + `"` + "\nCATTLE_ROLE_NONE=true\n" + `CATTLE_TOKEN="` + testToken + `"` + "\n"
		script := slices.Concat([]byte(header), readFile(installScript))
		res := h.run(script, "--server", s.URL+"/", "--ca-checksum", strings.ToUpper(checksum(ca.pem)))
		if res.code != 0 {
			t.Fatal(res.stderr)
		}
		if got := s.last("/v3/connect/agent").Get("X-Cattle-Role-Worker"); got != "false" {
			t.Errorf("role worker = %q", got)
		}
		if unit := h.read("/etc/systemd/system/rancher-system-agent.service"); !strings.Contains(unit, "Environment=CATTLE_AGENT_STRICT_VERIFY=true\n") {
			t.Errorf("STRICT_VERIFY of the header is lost:\n%s", unit)
		}
		if env := h.read("/etc/systemd/system/rancher-system-agent.env"); !strings.Contains(env, "HTTP_PROXY=http://proxy.example:3128\n") {
			t.Errorf("the proxy of the header is lost:\n%s", env)
		}
	})
}

func TestMachineID(t *testing.T) {
	s := newServer(t, newAuthority(t, "drover"))
	h := newHost(t, shells(t)[0])
	const file = "/var/lib/rancher/system-agent/etc/cattle-id"

	h.mustJoin(s, "--worker")
	first := s.last("/v3/connect/agent").Get("X-Cattle-Id")
	if !regexp.MustCompile(`^[0-9a-f]{63}$`).MatchString(first) || h.read(file) != first+"\n" {
		t.Errorf("the server saw %q, the file has %q; want 63 hexadecimal digits in both", first, h.read(file))
	}
	h.mustJoin(s, "--worker")
	if again := s.last("/v3/connect/agent").Get("X-Cattle-Id"); again != first {
		t.Errorf("second run: id %q, want the first %q", again, first)
	}
	h.env = append(h.env, "CATTLE_ID=mine")
	h.mustJoin(s, "--worker")
	if given := s.last("/v3/connect/agent").Get("X-Cattle-Id"); given != "mine" || h.read(file) != first+"\n" {
		t.Errorf("with CATTLE_ID: the server saw %q, the file has %q", given, h.read(file))
	}

	other := newHost(t, shells(t)[0])
	other.mustJoin(s, "--worker")
	if second := s.last("/v3/connect/agent").Get("X-Cattle-Id"); second == first {
		t.Error("two hosts have one id")
	}
}
