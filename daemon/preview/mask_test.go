package preview

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var tags = regexp.MustCompile(`<masked:[0-9a-f]{8}>`)

func TestMask(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"YAML", "token: K10abc::server:x y\nserver: https://a:6443\n", "token: #\nserver: https://a:6443\n"},
		{"YAML quoted", `agent-token: "a b" # note`, `agent-token: "#" # note`},
		{"YAML in a list", "users:\n- name: x\n  password: hunter2", "users:\n- name: x\n  password: #"},
		{"YAML flow", "{token: abc, name: x}", "{token: #, name: x}"},
		{"YAML block", "clientSecret: |\n  one\n  two\nname: x", "clientSecret: |\n  #\n  #\nname: x"},
		{"YAML list", "tokens:\n  - one\n  - \"two\"\nname: x", "tokens:\n  - #\n  - \"#\"\nname: x"},
		{"YAML mapping below", "secret:\n  name: x\n  value: y", "secret:\n  name: x\n  value: y"},
		{"JSON", `{"name":"x","apiKey":"a\"b","n":{"password": "p"},"z":1}`, `{"name":"x","apiKey":"#","n":{"password": "#"},"z":1}`},
		{"JSON number", `{"pwd": 1234}`, `{"pwd": #}`},
		{"docker", `{"auths":{"r.example":{"auth":"dXNlcjpwYXNz"}}}`, `{"auths":{"r.example":{"auth":"#"}}}`},
		{"env", "CATTLE_TOKEN=abc def\nHTTP_PROXY=http://me:pa55@proxy:1\nexport AWS_SECRET_ACCESS_KEY='x y'", "CATTLE_TOKEN=#\nHTTP_PROXY=http://me:#@proxy:1\nexport AWS_SECRET_ACCESS_KEY='#'"},
		{"unit", "ExecStart=/bin/k3s server --token abc --node-ip 1.2.3.4 --agent-token=def", "ExecStart=/bin/k3s server --token # --node-ip 1.2.3.4 --agent-token=#"},
		{"header", "Authorization: Bearer abcdefgh", "Authorization: Bearer #"},
		{"key file", "-----BEGIN RSA PRIVATE KEY-----\nMIIB\nAAAA\n-----END RSA PRIVATE KEY-----\nafter", "-----BEGIN RSA PRIVATE KEY----- # -----END RSA PRIVATE KEY-----\nafter"},
		{"key on one line", `{"pem":"-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n"}`, `{"pem":"-----BEGIN PRIVATE KEY----- # -----END PRIVATE KEY-----\n"}`},
		{"key without end", "-----BEGIN EC PRIVATE KEY-----\nMIIB", "-----BEGIN EC PRIVATE KEY-----#"},
		{"kubeconfig", "    client-key-data: QUJD\n    certificate-authority-data: REVG", "    client-key-data: #\n    certificate-authority-data: REVG"},
		{"certificate", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"},
		{"no secrets", "keyboard: us\nmonkey: 1\nname: the token of x is elsewhere\nauthor: me\n", "keyboard: us\nmonkey: 1\nname: the token of x is elsewhere\nauthor: me\n"},
		{"empty", "token:\nname: x\npassword: \"\"\n", "token:\nname: x\npassword: \"\"\n"},
	}
	m := masker{[]byte("key")}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			masked := m.text(tt.in)
			if d := cmp.Diff(tt.want, tags.ReplaceAllString(masked, "#")); d != "" {
				t.Error(d)
			}
			if again := m.text(masked); tags.ReplaceAllString(again, "#") != tags.ReplaceAllString(masked, "#") {
				t.Errorf("masked twice: %s", again)
			}
		})
	}
}

func TestMaskedArguments(t *testing.T) {
	m := masker{[]byte("key")}
	got := strings.Join(m.args([]string{"k3s", "--token", "abc", "--password=x", "--node-ip", "1.2.3.4", "--token", "--debug", "sh -c 'SECRET=a run'"}), " ")
	if got = tags.ReplaceAllString(got, "#"); got != "k3s --token # --password=# --node-ip 1.2.3.4 --token --debug sh -c 'SECRET=# run'" {
		t.Error(got)
	}
}

func TestTagsDistinguishValues(t *testing.T) {
	m := masker{[]byte("key")}
	if a, b := m.text("token: a"), m.text("token: b"); a == b || a != m.text("token: a") {
		t.Errorf("%s and %s", a, b)
	}
	if other := (masker{[]byte("other")}).text("token: a"); other == m.text("token: a") {
		t.Error("a tag does not depend on its key")
	}
}

// Whatever a file holds, masking ends, and a value behind a plain name never survives.
func FuzzMask(f *testing.F) {
	f.Add("token: x", "y")
	f.Fuzz(func(t *testing.T, text, secret string) {
		m := masker{[]byte("key")}
		m.text(text)
		secret = strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return -1
		}, secret)
		if len(secret) < 9 {
			return
		}
		for _, line := range []string{"password: " + secret, "TOKEN=" + secret, `{"secret":"` + secret + `"}`, "run --token " + secret} {
			if masked := tags.ReplaceAllString(m.text(line), ""); strings.Contains(masked, secret) {
				t.Errorf("%q stays in %q", secret, masked)
			}
		}
	})
}
