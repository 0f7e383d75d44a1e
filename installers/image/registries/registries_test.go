package registries

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRegistriesRefuses(t *testing.T) {
	tests := []struct{ name, yaml, want string }{
		{"no YAML", "mirrors: [", "line 1: is not YAML"},
		{"wrong type", "mirrors:\n  a:\n    endpoint: http://x\n", "line 3: mirrors[a].endpoint: a list is expected"},
		{"a password in the wrong place", "configs:\n  a:\n    auth: hush\n", "line 3: configs[a].auth: a mapping is expected"},
		{"a list in the place of a password", "configs:\n  a:\n    auth: {password: [hush]}\n", "line 3: configs[a].auth.password: a text is expected"},
		{"bad pattern", "mirrors:\n  a:\n    rewrite:\n      \"(\": x\n", "line 4: mirrors[a].rewrite[(]: error parsing regexp: missing closing ): `(`"},
		{"long pattern", "mirrors:\n  a:\n    rewrite:\n      \"" + strings.Repeat("a", 1000) + "\": " + strings.Repeat("a", 1100) + "\n", "line 4: mirrors[a].rewrite." + strings.Repeat("a", 1000) + ": the pattern or its replacement is longer than 1024 bytes"},
		{"rewrite is a list", "mirrors:\n  a:\n    rewrite: [x]\n", "line 3: mirrors[a].rewrite: a mapping is expected"},
		{"a key twice", "mirrors:\n  a: {}\n  b: {}\n  a: {}\n", "line 4: mirrors: a is there twice, first in line 2"},
		{"two documents", "mirrors: {}\n---\nmirrors: {}\n", "line 2: a second document begins, where one is expected"},
		{"scheme", `{mirrors: {a: {endpoint: ["ok", "ftp://x"]}}}`, `line 1: mirrors[a].endpoint[1]: has the scheme "ftp", only https and http are known`},
		{"no host", `{mirrors: {a: {endpoint: ["https://"]}}}`, "line 1: mirrors[a].endpoint[0]: names no host"},
		{"credentials in the URL", `{mirrors: {a: {endpoint: ["https://me:hush@x"]}}}`, "line 1: mirrors[a].endpoint[0]: has credentials in it; they belong below configs"},
		{"not a URL, with credentials", `{mirrors: {a: {endpoint: ["https://me:hush@x:y"]}}}`, "line 1: mirrors[a].endpoint[0]: is not a URL"},
		{"auth", `{configs: {a: {auth: {auth: "hush!"}}}}`, "line 1: configs[a].auth.auth: is not base64"},
		{"auth without a colon", `{configs: {a: {auth: {auth: "aHVzaA=="}}}}`, "line 1: configs[a].auth.auth: is not base64 of username:password"},
		{"a key without its certificate", "configs:\n  a:\n    tls: {key_file: /x}\n", "line 3: configs[a]: cert_file and key_file belong together, and one of them is missing below tls"},
		{"no boolean", "configs:\n  a:\n    tls: {insecure_skip_verify: perhaps}\n", "line 3: configs[a].tls.insecure_skip_verify: true or false is expected"},
		{
			"aliases that multiply", "a: &a [" + strings.Repeat(`"https://x",`, 90) + "]\nb: &b {" + many("k%d: {endpoint: *a}, ", 90) + "}\nmirrors: {" + many("m%d: {<<: {endpoint: *a}}, ", 900) + "}\n",
			"the file has more than 50000 values",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("r.yaml", []byte(test.yaml))
			if err == nil || err.Error() != test.want && !(test.name == "aliases that multiply" && strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
	for _, empty := range []string{"", "{}", "# nothing\n", "mirrors:\nconfigs:\n", "unknown: {key: 1}\nmirrors: {a: {rewrite: null, future: x}}"} {
		if _, err := Parse("r.yaml", []byte(empty)); err != nil {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

// many repeats a pattern with a number in it.
func many(pattern string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, pattern, i)
	}
	return b.String()
}

func TestMergedKeys(t *testing.T) {
	r, err := Parse("r.yaml", []byte(`
x: &shared {auth: {username: me, password: hush}}
configs:
  a: {<<: *shared, tls: {ca_file: /ca}}
  b: {<<: [*shared], auth: {username: you}}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Config{
		"a": {Auth: &Auth{Username: "me", Password: "hush"}, TLS: &TLS{CAFile: Placed{"/ca", "r.yaml: line 4: configs[a].tls.ca_file"}}},
		"b": {Auth: &Auth{Username: "you"}},
	}
	if diff := cmp.Diff(want, r.Configs, cmp.AllowUnexported(Placed{})); diff != "" {
		t.Error(diff)
	}
}

func TestEndpoints(t *testing.T) {
	r, err := Parse("r.yaml", []byte(`
mirrors:
  docker.io: {endpoint: ["https://hub.example:5000", "plain.example/v2/cache/", "http://localhost:5000"]}
  "*": {endpoint: ["https://all.example"]}
  registry.example:443: {endpoint: ["https://registry.example"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		registry string
		want     []Endpoint
	}{
		{"index.docker.io", []Endpoint{
			{Host: "hub.example:5000", Path: "/v2", MirrorOf: "docker.io"},
			{Host: "plain.example", Path: "/v2/cache", MirrorOf: "docker.io"},
			{Host: "localhost:5000", Path: "/v2", MirrorOf: "docker.io", PlainHTTP: true},
			{Host: "index.docker.io", Path: "/v2"},
		}},
		{"other.example", []Endpoint{{Host: "all.example", Path: "/v2", MirrorOf: "other.example"}, {Host: "other.example", Path: "/v2"}}},
		{"registry.example", []Endpoint{{Host: "registry.example", Path: "/v2"}, {Host: "registry.example", Path: "/v2"}}},
		{"127.0.0.1:5000", []Endpoint{{Host: "all.example", Path: "/v2", MirrorOf: "127.0.0.1:5000"}, {Host: "127.0.0.1:5000", Path: "/v2", PlainHTTP: true}}},
		{"[::1]:5000", []Endpoint{{Host: "all.example", Path: "/v2", MirrorOf: "[::1]:5000"}, {Host: "[::1]:5000", Path: "/v2", PlainHTTP: true}}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, r.Endpoints(test.registry), cmp.AllowUnexported(Endpoint{})); diff != "" {
			t.Errorf("%s: %s", test.registry, diff)
		}
	}
}

func FuzzParseRegistries(f *testing.F) {
	f.Add([]byte(`{mirrors: {docker.io: {endpoint: ["https://x:1/v2/y"], rewrite: {"^a(.*)": "b$1"}}}, configs: {"*": {auth: {username: a, password: b, auth: "YTpi", identity_token: t}, tls: {ca_file: /x, insecure_skip_verify: true}}}}`))
	f.Add([]byte("mirrors:\n  a: &x\n    rewrite: {\"(\": x}\n  b: *x\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse("r.yaml", b)
		if err != nil {
			return
		}
		for _, registry := range []string{"index.docker.io", "a", "[::1]:5"} {
			all := r.Endpoints(registry)
			if last := all[len(all)-1]; last.Host != registry {
				t.Errorf("the registry itself is not the last: %+v", all)
			}
			for _, e := range all {
				if e.Host == "" || !strings.HasPrefix(e.Path, "/") {
					t.Errorf("%+v", e)
				}
				e.Rewrites.Apply("a/repository")
			}
		}
	})
}
