package image

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRegistriesRefuses(t *testing.T) {
	tests := []struct{ name, yaml, want string }{
		{"no YAML", "mirrors: [", "yaml: line 1: did not find expected node content"},
		{"wrong type", "mirrors:\n  a:\n    endpoint: http://x\n", "yaml: unmarshal errors:\n  line 3: cannot unmarshal !!str `http://x` into []string"},
		{"bad pattern", "mirrors:\n  a:\n    rewrite:\n      \"(\": x\n", "line 4: rewrite: error parsing regexp: missing closing ): `(`"},
		{"rewrite is a list", "mirrors:\n  a:\n    rewrite: [x]\n", "line 3: rewrite is not a mapping of patterns to replacements"},
		{"scheme", `{mirrors: {a: {endpoint: ["ok", "ftp://x"]}}}`, `mirrors[a].endpoint[1]: has the scheme "ftp", only https and http are known`},
		{"no host", `{mirrors: {a: {endpoint: ["https://"]}}}`, "mirrors[a].endpoint[0]: names no host"},
		{"credentials in the URL", `{mirrors: {a: {endpoint: ["https://me:hush@x"]}}}`, "mirrors[a].endpoint[0]: has credentials in it; they belong below configs"},
		{"not a URL, with credentials", `{mirrors: {a: {endpoint: ["https://me:hush@x:y"]}}}`, "mirrors[a].endpoint[0]: is not a URL"},
		{"auth", `{configs: {a: {auth: {auth: "hush!"}}}}`, "configs[a].auth.auth: is not base64"},
		{"auth without a colon", `{configs: {a: {auth: {auth: "aHVzaA=="}}}}`, "configs[a].auth.auth: is not base64 of username:password"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := parseRegistries([]byte(test.yaml))
			if err == nil || err.Error() != test.want {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
	for _, empty := range []string{"", "{}", "# nothing\n", "mirrors:\nconfigs:\n", "unknown: {key: 1}\nmirrors: {a: {rewrite: null, future: x}}"} {
		if _, err := parseRegistries([]byte(empty)); err != nil {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

func TestEndpoints(t *testing.T) {
	r, err := parseRegistries([]byte(`
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
		want     []endpoint
	}{
		{"index.docker.io", []endpoint{
			{host: "hub.example:5000", path: "/v2", mirrorOf: "docker.io"},
			{host: "plain.example", path: "/v2/cache", mirrorOf: "docker.io"},
			{host: "localhost:5000", path: "/v2", mirrorOf: "docker.io", plainHTTP: true},
			{host: "index.docker.io", path: "/v2"},
		}},
		{"other.example", []endpoint{{host: "all.example", path: "/v2", mirrorOf: "other.example"}, {host: "other.example", path: "/v2"}}},
		{"registry.example", []endpoint{{host: "registry.example", path: "/v2"}, {host: "registry.example", path: "/v2"}}},
		{"127.0.0.1:5000", []endpoint{{host: "all.example", path: "/v2", mirrorOf: "127.0.0.1:5000"}, {host: "127.0.0.1:5000", path: "/v2", plainHTTP: true}}},
		{"[::1]:5000", []endpoint{{host: "all.example", path: "/v2", mirrorOf: "[::1]:5000"}, {host: "[::1]:5000", path: "/v2", plainHTTP: true}}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, r.endpoints(test.registry), cmp.AllowUnexported(endpoint{})); diff != "" {
			t.Errorf("%s: %s", test.registry, diff)
		}
	}
}

func FuzzParseRegistries(f *testing.F) {
	f.Add([]byte(`{mirrors: {docker.io: {endpoint: ["https://x:1/v2/y"], rewrite: {"^a(.*)": "b$1"}}}, configs: {"*": {auth: {username: a, password: b, auth: "YTpi", identity_token: t}, tls: {ca_file: /x, insecure_skip_verify: true}}}}`))
	f.Add([]byte("mirrors:\n  a: &x\n    rewrite: {\"(\": x}\n  b: *x\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseRegistries(b)
		if err != nil {
			return
		}
		for _, registry := range []string{"index.docker.io", "a", "[::1]:5"} {
			all := r.endpoints(registry)
			if last := all[len(all)-1]; last.host != registry {
				t.Errorf("the registry itself is not the last: %+v", all)
			}
			for _, e := range all {
				if e.host == "" || !strings.HasPrefix(e.path, "/") {
					t.Errorf("%+v", e)
				}
				e.rewrites.apply("a/repository")
			}
		}
	})
}
