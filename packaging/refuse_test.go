package packaging

// What install.sh refuses, and that it leaves the host as it was.

import (
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wantRefusal checks a run that must end with one sentence that holds all of want.
func wantRefusal(t *testing.T, res result, want ...string) {
	t.Helper()
	if res.code == 0 {
		t.Fatalf("install.sh ended with 0\n%s", res.stdout)
	}
	if strings.Count(res.stderr, "\n") != 1 || !strings.HasPrefix(res.stderr, "rancher-system-agent: error: ") {
		t.Errorf("want one sentence on stderr, have:\n%s", res.stderr)
	}
	for _, w := range want {
		if !strings.Contains(res.stderr, w) {
			t.Errorf("the sentence does not say %q: %s", w, res.stderr)
		}
	}
}

// wantUntouched checks that nothing was written, left over, or asked of systemd.
func (h *host) wantUntouched(before map[string]string) {
	h.t.Helper()
	if diff := cmp.Diff(before, h.snapshot()); diff != "" {
		h.t.Errorf("the host was changed (-before +after):\n%s", diff)
	}
	if got := h.logged("systemctl"); got != nil {
		h.t.Errorf("systemctl was called: %q", got)
	}
	h.wantNoLeftovers()
}

func TestRefusedArguments(t *testing.T) {
	good := []string{"--server", "https://127.0.0.1:1", "--token", "t", "--ca-checksum", strings.Repeat("a", 64), "--worker"}
	with := func(args ...string) []string { return slices.Concat(good, args) }
	tests := []struct {
		name string
		args []string
		env  []string
		want []string
	}{
		{name: "unknown flag", args: with("--fast"), want: []string{`unknown flag "--fast"`}},
		{name: "word without flag", args: with("now"), want: []string{`unknown flag "now"`}},
		{name: "flag without value", args: with("--token"), want: []string{"--token needs a value"}},
		{name: "flag before flag", args: with("--node-name", "--worker"), want: []string{"--node-name needs a value", "--worker"}},
		{name: "no server", args: []string{"--token", "t", "--worker"}, want: []string{"no server", "--server"}},
		{name: "no token", args: good[:2], env: []string{"CATTLE_ROLE_WORKER=true"}, want: []string{"no token", "--token"}},
		{name: "no role", args: good[:6], want: []string{"--etcd", "--controlplane", "--worker", "--all-roles", "--no-roles"}},
		{name: "http", args: with("--server", "http://127.0.0.1:1"), want: []string{"http://127.0.0.1:1", "https://"}},
		{name: "no scheme", args: with("--server", "127.0.0.1"), want: []string{"https://"}},
		{name: "url with password", args: with("--server", "https://u:p@h"), want: []string{"is not the URL of a server"}},
		{name: "short checksum", args: with("--ca-checksum", "abc"), want: []string{"3 characters", "64"}},
		{name: "other checksum", args: with("--ca-checksum", strings.Repeat("x", 64)), want: []string{"hexadecimal"}},
		{name: "strict without checksum", args: with("--ca-checksum", ""), env: []string{"STRICT_VERIFY=true"}, want: []string{"--ca-checksum"}},
		{name: "token with newline", args: with("--token", "a\nX-Evil: 1"), want: []string{"--token must be printable"}},
		{name: "node name with blank", args: with("--node-name", "a b"), want: []string{"--node-name must be printable"}},
		{name: "address with return", args: with("--address", "a\rb"), want: []string{"--address must be printable"}},
		{name: "label", args: with("--label", "a"), want: []string{`the label "a"`, "key=value"}},
		{name: "taint without effect", args: with("--taint", "a=b"), want: []string{`the taint "a=b"`, "NoSchedule"}},
		{name: "taint with two values", args: with("--taint", "a=b=c:NoSchedule"), want: []string{`the taint "a=b=c:NoSchedule"`}},
		{name: "boolean", args: good, env: []string{"CATTLE_LOCAL_ENABLED=yes"}, want: []string{"CATTLE_LOCAL_ENABLED", `"yes"`}},
		{name: "nothing enabled", args: good, env: []string{"CATTLE_REMOTE_ENABLED=False"}, want: []string{"CATTLE_REMOTE_ENABLED", "CATTLE_LOCAL_ENABLED"}},
		{name: "log level", args: good, env: []string{"CATTLE_AGENT_LOGLEVEL=loud"}, want: []string{`"loud"`}},
		{name: "timeout", args: good, env: []string{"CATTLE_REGISTRATION_TIMEOUT=5m"}, want: []string{`"5m"`}},
		{name: "octal timeout", args: good, env: []string{"CATTLE_REGISTRATION_TIMEOUT=090"}, want: []string{`"090"`}},
		{name: "architecture", args: good, env: []string{"ARCH=mips"}, want: []string{"mips"}},
		{name: "relative directory", args: good, env: []string{"CATTLE_AGENT_VAR_DIR=var"}, want: []string{"CATTLE_AGENT_VAR_DIR", `"var"`}},
		{name: "directory with blank", args: good, env: []string{"CATTLE_AGENT_CONFIG_DIR=/etc/a b"}, want: []string{"CATTLE_AGENT_CONFIG_DIR"}},
		{name: "directory upwards", args: good, env: []string{"CATTLE_AGENT_BIN_PREFIX=/opt/../etc"}, want: []string{"CATTLE_AGENT_BIN_PREFIX"}},
		{name: "agent over http without checksum", args: good, env: []string{"CATTLE_AGENT_BINARY_URL=http://127.0.0.1:1/agent"}, want: []string{"http://127.0.0.1:1/agent", "CATTLE_AGENT_BINARY_CHECKSUM"}},
		{name: "base over http", args: good, env: []string{"CATTLE_AGENT_BINARY_BASE_URL=http://127.0.0.1:1"}, want: []string{"http://127.0.0.1:1", "CATTLE_AGENT_BINARY_CHECKSUM"}},
		{name: "base over ftp", args: good, env: []string{"CATTLE_AGENT_BINARY_BASE_URL=ftp://127.0.0.1:1"}, want: []string{"ftp://127.0.0.1:1"}},
		{name: "local agent not there", args: good, env: []string{"CATTLE_AGENT_BINARY_LOCAL=true", "CATTLE_AGENT_BINARY_LOCAL_LOCATION=/no/agent"}, want: []string{"/no/agent", "CATTLE_AGENT_BINARY_LOCAL_LOCATION"}},
		{name: "nowhere to download from", env: []string{"CATTLE_REMOTE_ENABLED=false", "CATTLE_LOCAL_ENABLED=true"}, want: []string{"CATTLE_AGENT_BINARY_URL", "CATTLE_AGENT_BINARY_LOCAL_LOCATION"}},
		{
			name: "server does not answer", args: good, env: []string{"CATTLE_REGISTRATION_TIMEOUT=0"},
			want: []string{"/cacerts", "CATTLE_REGISTRATION_TIMEOUT", "127.0.0.1 port 1"},
		},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			oneShell(t, i, func(t *testing.T, sh shell) {
				h := newHost(t, sh)
				h.env = tt.env
				before := h.snapshot()
				wantRefusal(t, h.install(tt.args...), tt.want...)
				h.wantUntouched(before)
			})
		})
	}
}

func TestRefusedOnThisHost(t *testing.T) {
	s := newServer(t, newAuthority(t, "drover"))
	tests := []struct {
		name    string
		prepare func(h *host)
		want    string
	}{
		{"not root", func(h *host) { h.tool("id", "echo 1000") }, "root"},
		{"empty machine id", func(h *host) {
			h.write(h.root+"/var/lib/rancher/system-agent/etc/cattle-id", "", 0o600)
		}, "/var/lib/rancher/system-agent/etc/cattle-id is empty"},
		{"damaged machine id", func(h *host) {
			h.write(h.root+"/var/lib/rancher/system-agent/etc/cattle-id", "a b\n", 0o600)
		}, `"a b"`},
		{"long machine id", func(h *host) { h.env = append(h.env, "CATTLE_ID="+strings.Repeat("a", 64)) }, "63"},
		{"certificate that openssl cannot read", func(h *host) { h.tool("openssl", "exit 1") }, "openssl cannot read"},
		{"interface without address", func(h *host) {
			h.write(h.root+"/sys/class/net/ens3/address", "", 0o644)
			h.tool("ip", ":")
			h.env = append(h.env, "CATTLE_ADDRESS=ens3")
		}, "ens3 has no IPv4 address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, shells(t)[0])
			tt.prepare(h)
			before := h.snapshot()
			wantRefusal(t, h.join(s, "--worker"), tt.want)
			h.wantUntouched(before)
		})
	}
}

func TestRefusedServer(t *testing.T) {
	ca, other := newAuthority(t, "drover"), newAuthority(t, "other")
	page := "<!doctype html><html><body>Welcome</body></html>"
	cut := string(ca.pem[:len(ca.pem)-40])
	both := string(ca.pem) + cut
	garbage := "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	const connect = "/v3/connect/agent"
	tests := []struct {
		name   string
		path   string
		answer http.HandlerFunc
		sum    string // --ca-checksum, if not that of the CA
		cert   *authority
		env    []string
		want   []string
	}{
		{name: "wrong checksum", sum: checksum([]byte("x")), want: []string{checksum([]byte("x")), checksum(ca.pem), "/cacerts"}},
		{name: "certificate of another CA", cert: &other, want: []string{checksum(ca.pem), "certificate", "join command"}},
		{name: "other CA served", path: "/cacerts", answer: say(200, string(other.pem)), want: []string{checksum(ca.pem), checksum(other.pem)}},
		{name: "truncated PEM", path: "/cacerts", answer: say(200, cut), want: []string{checksum(ca.pem), checksum([]byte(cut)), "cut off"}},
		{name: "truncated PEM, checksum of it", path: "/cacerts", answer: say(200, cut), sum: checksum([]byte(cut)), want: []string{checksum([]byte(cut)), "cut off"}},
		{name: "second certificate truncated", path: "/cacerts", answer: say(200, both), sum: checksum([]byte(both)), want: []string{checksum([]byte(both)), "cut off"}},
		{name: "damaged certificate", path: "/cacerts", answer: say(200, garbage), sum: checksum([]byte(garbage)), want: []string{checksum([]byte(garbage))}},
		{name: "no CA", path: "/cacerts", answer: say(200, ""), want: []string{checksum(ca.pem), checksum(nil), "empty"}},
		{name: "page instead of CA", path: "/cacerts", answer: say(200, page), want: []string{checksum(ca.pem), checksum([]byte(page)), "no PEM"}},
		{name: "endless CA", path: "/cacerts", answer: say(200, strings.Repeat("a", 2<<20)), want: []string{"larger than 1024 KiB"}},
		{name: "CA not there", path: "/cacerts", answer: say(404, "no"), want: []string{"/cacerts", "404 (no)"}},
		{name: "not healthy at all", path: "/healthz", answer: say(404, page), want: []string{"/healthz", "404"}},
		{name: "redirect to http", path: "/healthz", answer: redirect("http://127.0.0.1:1/"), want: []string{"/healthz", "rotocol"}},
		{name: "token in JSON", path: connect, answer: say(401, "{\n  \"status\": 401,\n  \"message\": \"token \\\"x\\\" has expired\"\n}\n"), want: []string{`(token "x" has expired)`, "401", "not installed"}},
		{name: "token in text", path: connect, answer: say(403, "this token is of another cluster\n"), want: []string{"(this token is of another cluster)", "403"}},
		{name: "control characters", path: connect, answer: say(401, "no\x1b[2J\x07 way"), want: []string{"(no[2J way)"}},
		{name: "refusal as a page", path: connect, answer: say(401, page), want: []string{"HTTP 401;"}},
		{
			name: "shell in a message", path: connect, answer: say(401, `{"message":"$(touch /tmp/x) `+"`id`"+` ; rm -rf / %s%n \\\"'"}`),
			want: []string{"$(touch /tmp/x) `id` ; rm -rf / %s%n \\\"'"},
		},
		{name: "redirected registration", path: connect, answer: redirect("https://127.0.0.1:1/"), want: []string{"HTTP 302"}},
		{name: "page instead of registration", path: connect, answer: say(200, page), want: []string{"not a JSON object"}},
		{name: "registration stays unavailable", path: connect, answer: say(503, "controllers are starting", "Retry-After", "1"), env: []string{"CATTLE_REGISTRATION_TIMEOUT=0"}, want: []string{"503", "(controllers are starting)", "CATTLE_REGISTRATION_TIMEOUT"}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			oneShell(t, i, func(t *testing.T, sh shell) {
				signer := ca
				if tt.cert != nil {
					signer = *tt.cert
				}
				s, h := newServer(t, signer), newHost(t, sh)
				s.ca = ca
				if tt.path != "" {
					s.on(tt.path, tt.answer)
				}
				sum := tt.sum
				if sum == "" {
					sum = checksum(ca.pem)
				}
				h.env = tt.env
				before := h.snapshot()
				res := h.install("--server", s.URL, "--token", testToken, "--ca-checksum", sum, "--worker")
				wantRefusal(t, res, tt.want...)
				h.wantUntouched(before)
			})
		})
	}
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
}

// The token of another cluster, or an expired one, is the server's to explain.
func TestUnknownToken(t *testing.T) {
	s := newServer(t, newAuthority(t, "drover"))
	eachShell(t, func(t *testing.T, sh shell) {
		h := newHost(t, sh)
		before := h.snapshot()
		wantRefusal(t, h.join(s, "--worker", "--token", "wrong"), "this registration token is not known", "not installed")
		h.wantUntouched(before)
	})
}

// TestAPinIsTheOnlyTrust: once a pin is given, curl gets that CA and no directory of others in
// every request but the one that fetches it. The system's store would be asked beside --cacert.
func TestAPinIsTheOnlyTrust(t *testing.T) {
	ca := newAuthority(t, "drover")
	eachShell(t, func(t *testing.T, sh shell) {
		s, h := newServer(t, ca), newHost(t, sh)
		curl, err := exec.LookPath("curl")
		if err != nil {
			t.Fatal(err)
		}
		h.tool("curl", `echo "$*" >>`+h.log+`/trust
previous=
for word; do
	case $previous in --capath) [ -d "$word" ] && echo "capath holds $(ls -A "$word" | wc -l | tr -d ' ')" >>`+h.log+`/trust ;; esac
	previous=$word
done
exec `+curl+` "$@"`)
		h.mustJoin(s, "--worker")
		var unverified, pinned int
		lines := h.logged("trust")
		for i, line := range lines {
			switch {
			case strings.HasPrefix(line, "capath holds "):
			case strings.Contains(line, "--insecure"):
				if unverified++; !strings.HasSuffix(line, s.URL+"/cacerts") {
					t.Errorf("unverified: curl %s", line)
				}
			case strings.Contains(line, s.URL):
				pinned++
				if !strings.Contains(line, " --cacert ") || !strings.Contains(line, " --capath ") || i+1 >= len(lines) || lines[i+1] != "capath holds 0" {
					t.Errorf("with other trust than the pin: curl %s", line)
				}
			}
		}
		if unverified != 1 || pinned < 3 {
			t.Errorf("%d unverified requests and %d pinned ones", unverified, pinned)
		}
	})
}

func TestSystemTrust(t *testing.T) {
	ca, other := newAuthority(t, "drover"), newAuthority(t, "other")
	known := func(t *testing.T, h *host, a authority) {
		h.write(h.tools+"/known.pem", string(a.pem), 0o644)
		h.env = append(h.env, "SSL_CERT_FILE="+h.tools+"/known.pem")
	}
	t.Run("a server that the system knows", func(t *testing.T) {
		t.Parallel()
		s, h := newServer(t, ca), newHost(t, shells(t)[0])
		known(t, h, ca)
		if res := h.install("--server", s.URL, "--token", testToken, "--worker"); res.code != 0 {
			t.Fatal(res.stderr)
		}
		if s.count("/cacerts") != 0 {
			t.Error("the CA was fetched, although nothing can prove it")
		}
	})
	t.Run("a server that it does not know", func(t *testing.T) {
		t.Parallel()
		s, h := newServer(t, ca), newHost(t, shells(t)[0])
		known(t, h, other)
		before := h.snapshot()
		wantRefusal(t, h.install("--server", s.URL, "--token", testToken, "--worker"), "does not trust", "--ca-checksum")
		h.wantUntouched(before)
	})
	t.Run("does not help against a pin", func(t *testing.T) {
		t.Parallel()
		openssl := requireTool(t, "openssl")
		s, h := newServer(t, other), newHost(t, shells(t)[0])
		s.ca = ca
		known(t, h, other)
		dir := h.tools + "/known"
		h.write(dir+"/other.pem", string(other.pem), 0o644)
		hash, err := exec.Command(openssl, "x509", "-hash", "-noout", "-in", dir+"/other.pem").Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("other.pem", dir+"/"+strings.TrimSpace(string(hash))+".0"); err != nil {
			t.Fatal(err)
		}
		h.env = append(h.env, "SSL_CERT_DIR="+dir)
		before := h.snapshot()
		wantRefusal(t, h.join(s, "--worker"), checksum(ca.pem))
		h.wantUntouched(before)
	})
}
