package image

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const pluginHead = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"

func TestParsePlugins(t *testing.T) {
	got, err := parsePlugins("c.yaml", []byte(pluginHead+`- name: ecr
  matchImages: ["*.dkr.ecr.*.amazonaws.com", "registry.io:8080/path"]
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1beta1
  args: [get, -v]
  env: [{name: A, value: "1"}]
- {name: other, matchImages: [a.io], defaultCacheDuration: 0s, apiVersion: credentialprovider.kubelet.k8s.io/v1alpha1}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []plugin{
		{"ecr", []string{"*.dkr.ecr.*.amazonaws.com", "registry.io:8080/path"}, 12 * time.Hour, "credentialprovider.kubelet.k8s.io/v1beta1", []string{"get", "-v"}, []string{"A=1"}},
		{name: "other", match: []string{"a.io"}, apiVersion: "credentialprovider.kubelet.k8s.io/v1alpha1"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(plugin{})); diff != "" {
		t.Error(diff)
	}
}

func TestParsePluginsRefuses(t *testing.T) {
	one := func(change string) string {
		fields := map[string]string{"name": "p", "matchImages": "[a.io]", "defaultCacheDuration": "1h", "apiVersion": "credentialprovider.kubelet.k8s.io/v1"}
		key, value, _ := strings.Cut(change, "=")
		if fields[key] = value; value == "" {
			delete(fields, key)
		}
		b, text := &strings.Builder{}, "- "
		for _, key := range []string{"name", "matchImages", "defaultCacheDuration", "apiVersion", "env", "args", "tokenAttributes", "arg"} {
			if fields[key] != "" {
				fmt.Fprintf(b, "%s%s: %s\n", text, key, fields[key])
				text = "  "
			}
		}
		return pluginHead + b.String()
	}
	for _, test := range []struct{ name, yaml, want string }{
		{"nothing", "", "apiVersion is missing, expected is kubelet.config.k8s.io/v1"},
		{"another version", "apiVersion: v9\n", `line 1: apiVersion: "v9" is not known, expected is kubelet.config.k8s.io/ with v1, v1beta1, v1alpha1`},
		{"another kind", "apiVersion: kubelet.config.k8s.io/v1\nkind: Pod\n", `kind is "Pod", expected is CredentialProviderConfig`},
		{"no providers", "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\n", "providers is missing or empty, expected is at least one"},
		{"unknown key above", pluginHead + "  []\nother: 1\n", "line 5: other: there is no such key"},
		{"unknown key", one("arg=[x]"), "line 8: providers[0].arg: there is no such key"},
		{"a path as a name", one("name=../../bin/sh"), `line 4: providers[0]: name "../../bin/sh" is not the name of a program in the plugins' directory, without a path and blanks`},
		{"no name", one("name="), `line 4: providers[0]: name "" is not the name of a program in the plugins' directory, without a path and blanks`},
		{"dots as a name", one("name=.."), `line 4: providers[0]: name ".." is not the name of a program in the plugins' directory, without a path and blanks`},
		{"the same name", one("name=p") + strings.TrimPrefix(one("name=p"), pluginHead), `line 8: providers[1]: the name "p" is there twice`},
		{"no images", one("matchImages=[]"), "line 4: providers[0]: matchImages is missing or empty, expected are images such as registry.example.com"},
		{"glob in the path", one("matchImages=['a.io/*']"), "line 5: providers[0].matchImages[0]: it is not of the form host, host:port or host/path, with * only in the host"},
		{"glob in the port", one("matchImages=['a.io:*']"), "line 5: providers[0].matchImages[0]: it is not of the form host, host:port or host/path, with * only in the host"},
		{"no duration", one("defaultCacheDuration="), "line 4: providers[0]: defaultCacheDuration is missing, expected is a duration such as 12h, or 0s"},
		{"wrong duration", one("defaultCacheDuration=soon"), "line 6: providers[0].defaultCacheDuration: a duration such as 12h is expected, or 0s"},
		{"negative duration", one("defaultCacheDuration=-1h"), "line 6: providers[0].defaultCacheDuration: a duration such as 12h is expected, or 0s"},
		{"no version", one("apiVersion="), "line 4: providers[0]: apiVersion is missing, expected is credentialprovider.kubelet.k8s.io/v1"},
		{"wrong variable", one("env=[{name: 'a=b', value: hush}]"), "line 8: providers[0].env[0]: name is missing or is no name of a variable"},
		{"token of a service account", one("tokenAttributes={cacheType: Token}"), "line 8: providers[0].tokenAttributes: tokens of service accounts are for pods; no plugin gets one for an image of an instruction"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := parsePlugins("c.yaml", []byte(test.yaml)); err == nil || err.Error() != test.want {
				t.Errorf("error %v\nwant  %s", err, test.want)
			}
		})
	}
}

// TestMatches has the rules of the kubelet's documentation.
func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, image string
		want           bool
	}{
		{"a.io", "a.io/x", true},
		{"https://a.io", "a.io/x", true},
		{"*.io", "a.io/x", true},
		{"*.io", "b.a.io/x", false},
		{"*.*.io", "b.a.io/x", true},
		{"k8s.*.io", "k8s.gcr.io/x", true},
		{"app*.a.io", "app7.a.io/x", true},
		{"app*.a.io", "api.a.io/x", false},
		{"123456789.dkr.ecr.us-east-1.amazonaws.com", "123456789.dkr.ecr.us-east-1.amazonaws.com/x", true},
		{"a.io:8080", "a.io:8080/x", true},
		{"a.io:8080", "a.io/x", false},
		{"a.io", "a.io:8080/x", false},
		{"a.io/team", "a.io/team/x", true},
		{"a.io/team", "a.io/x", false},
		{"127.0.*.1:5000", "127.0.0.1:5000/x", true},
		{"a.io", "a.io.evil.com/x", false},
	} {
		if got := matches(test.pattern, test.image); got != test.want {
			t.Errorf("matches(%q, %q) = %v", test.pattern, test.image, got)
		}
	}
}

// pluginBed is a registry that wants a login, and a directory for plugins.
type pluginBed struct {
	*Stager
	host   string
	asked  string // file with what the plugin was asked, a line each time
	logins []string
	late   atomic.Int64 // how much later it is, in nanoseconds
}

// answering is a plugin that prints an answer, HOST being the registry.
func newPluginBed(t *testing.T, script, match, keep string) *pluginBed {
	t.Helper()
	bed := &pluginBed{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	open := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, ok := r.BasicAuth()
		if !open {
			bed.logins = append(bed.logins, user+":"+password)
		}
		if !open && (!ok || user != "me" || password != "hush-hush") {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	bed.host = server.Listener.Addr().String()
	for _, repository := range []string{"inst/a:1", "inst/b:1"} {
		img, err := random.Image(100, 1)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(bed.host+"/"+repository, name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, img); err != nil {
			t.Fatal(err)
		}
	}
	open = false
	dir := t.TempDir()
	bed.asked = filepath.Join(dir, "asked")
	fill := strings.NewReplacer("HOST", bed.host, "ASKED", bed.asked)
	put := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(fill.Replace(content)), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("provider", "#!/bin/sh\ncat >> ASKED; echo \" $0 $* $SECRET_ENV\" >> ASKED\n"+script, 0o700)
	config := put("config.yaml", pluginHead+`- name: provider
  matchImages: ["`+match+`"]
  defaultCacheDuration: `+keep+`
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get]
  env: [{name: SECRET_ENV, value: from-config}]
`, 0o600)
	bed.Stager = &Stager{
		Plugins: Plugins{Config: config, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}, Timeout: 30 * time.Second},
		Logger:  slog.New(slog.DiscardHandler), Pause: time.Millisecond, Now: func() time.Time {
			return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(bed.late.Load()))
		},
	}
	return bed
}

func (b *pluginBed) times(t *testing.T) int {
	t.Helper()
	content, err := os.ReadFile(b.asked)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(content), "\n")
}

func printing(answer string) string { return "cat <<'END'\n" + answer + "\nEND\n" }

func answerOf(kind, rest string) string {
	return `{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"` + kind + `"` + rest + `}`
}

const login = `"auth":{"HOST":{"username":"me","password":"hush-hush"},"HOST/other":{"username":"no","password":"no"}}`

func TestPlugins(t *testing.T) {
	bed := newPluginBed(t, printing(answerOf("Image", ","+login)), "127.0.*.1:"+"PORT", "1h")
	// The pattern has to name the port, which is known only now.
	_, port, _ := strings.Cut(bed.host, ":")
	content, err := os.ReadFile(bed.Plugins.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bed.Plugins.Config, []byte(strings.ReplaceAll(string(content), "PORT", port)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := bed.Stage(t.Context(), bed.host+"/inst/a:1", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	asked, err := os.ReadFile(bed.asked)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"` + bed.host + `/inst/a"} ` +
		filepath.Join(bed.Plugins.Dir, "provider") + " get from-config\n"
	if diff := cmp.Diff(want, string(asked)); diff != "" {
		t.Error(diff)
	}
	// registries.yaml comes before plugins.
	file := filepath.Join(t.TempDir(), "registries.yaml")
	if err := os.WriteFile(file, []byte(`{configs: {"*": {auth: {username: other, password: pw-pw}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	bed.Registries, bed.logins = []string{file}, nil
	if err := bed.Stage(t.Context(), bed.host+"/inst/b:1", t.TempDir()); err == nil || bed.times(t) != 1 || bed.logins[len(bed.logins)-1] != "other:pw-pw" {
		t.Errorf("error %v, asked %d times, logged in as %q", err, bed.times(t), bed.logins)
	}
}

func TestPluginAnswersAreKept(t *testing.T) {
	for _, test := range []struct {
		kind, rest, keep string
		want             []int // times asked after image a, a, b, and a 40 minutes later
	}{
		{"Image", "", "30m", []int{1, 1, 2, 3}},
		{"Registry", "", "30m", []int{1, 1, 1, 2}},
		{"Global", "", "30m", []int{1, 1, 1, 2}},
		{"Global", `"cacheDuration":"1h",`, "30m", []int{1, 1, 1, 1}},
		{"Global", `"cacheDuration":"0s",`, "30m", []int{1, 2, 3, 4}},
		{"Global", "", "0s", []int{1, 2, 3, 4}},
	} {
		t.Run(test.kind+test.rest+test.keep, func(t *testing.T) {
			bed := newPluginBed(t, printing(answerOf(test.kind, ","+test.rest+login)), "HOST", test.keep)
			var got []int
			for i, image := range []string{"a", "a", "b", "a"} {
				if i == 3 {
					bed.late.Add(int64(40 * time.Minute))
				}
				if err := bed.Stage(t.Context(), bed.host+"/inst/"+image+":1", t.TempDir()); err != nil {
					t.Fatal(err)
				}
				got = append(got, bed.times(t))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPluginsThatFail(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"an exit code", "echo first >&2; echo no role for from-config here >&2; exit 3\n", `exit status 3, saying "no role for … here"`},
		{"no JSON", "echo me:hush-hush\n", "it did not print the JSON of a CredentialProviderResponse"},
		{"another kind", printing(`{"kind":"hush-hush"}`), "kind of what it printed is not CredentialProviderResponse"},
		{"another version", printing(`{"kind":"CredentialProviderResponse","apiVersion":"v9"}`), "apiVersion of what it printed is not credentialprovider.kubelet.k8s.io/v1, which its configuration says"},
		{"no key type", printing(answerOf("", "")), "cacheKeyType of what it printed is none of Image, Registry and Global"},
		{"wrong duration", printing(answerOf("Image", `,"cacheDuration":"hush-hush"`)), "cacheDuration of what it printed is not a duration such as 12h"},
		{"wrong key", printing(answerOf("Image", `,"auth":{"a.io/*":{"password":"hush-hush"}}`)), "auth of what it printed has a key that is no image, or a pattern of images"},
		{"too much", "exec cat /dev/zero\n", "it printed more than 1048576 bytes"},
		{"for ever", "sleep 1000 & wait\n", "it did not answer within 300ms and was killed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bed := newPluginBed(t, test.script, "HOST", "1h")
			if test.name == "for ever" {
				bed.Plugins.Timeout = 300 * time.Millisecond
			}
			err := bed.Stage(t.Context(), bed.host+"/inst/a:1", t.TempDir())
			if err == nil || !strings.HasSuffix(err.Error(), "; asked without credentials; the credential plugin provider failed: "+test.want) {
				t.Errorf("error %v\nwant  …%s", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "hush-hush") {
				t.Errorf("the error tells a password: %v", err)
			}
		})
	}
}

func TestPluginsAreNotTrustedBlindly(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(bed *pluginBed) error
		want   string
	}{
		{"the program is missing", func(b *pluginBed) error { return os.Remove(filepath.Join(b.Plugins.Dir, "provider")) }, "there is no program "},
		{"others can write the program", func(b *pluginBed) error { return os.Chmod(filepath.Join(b.Plugins.Dir, "provider"), 0o777) }, "can be written by others than root"},
		{"others can write the configuration", func(b *pluginBed) error { return os.Chmod(b.Plugins.Config, 0o666) }, "read the configuration of credential plugins: "},
		{"the configuration is wrong", func(b *pluginBed) error { return os.WriteFile(b.Plugins.Config, []byte("kind: x"), 0o600) }, "config.yaml: apiVersion is missing"},
		{"there is no configuration", func(b *pluginBed) error { return os.Remove(b.Plugins.Config) }, "asked without credentials"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bed := newPluginBed(t, printing(answerOf("Image", ","+login)), "HOST", "1h")
			if err := test.change(bed); err != nil {
				t.Fatal(err)
			}
			if err := bed.Stage(t.Context(), bed.host+"/inst/a:1", t.TempDir()); err == nil || !strings.Contains(err.Error(), test.want) || bed.times(t) != 0 {
				t.Errorf("error %v, want %s; asked %d times", err, test.want, bed.times(t))
			}
		})
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(answerOf("Image", `,"cacheDuration":"1h","auth":{"*.a.io:5/x":{"username":"u","password":"p"}}`)))
	f.Add([]byte(`{"auth":{"[":{}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseAnswer(b, "credentialprovider.kubelet.k8s.io/v1")
		if err != nil {
			return
		}
		if c := r.credential("b.a.io:5/x/y"); c != nil && c.Username == "" && c.Password == "" {
			t.Error("credentials of nothing")
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	})
}

func FuzzParsePlugins(f *testing.F) {
	f.Add([]byte(pluginHead + "- {name: p, matchImages: [a.io], defaultCacheDuration: 0s, apiVersion: credentialprovider.kubelet.k8s.io/v1, env: [{name: a, value: b}]}"))
	f.Add([]byte("a: &a {<<: *a}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parsePlugins("c.yaml", b)
		for _, p := range all {
			if err == nil && (strings.Contains(p.name, "/") || p.name == ".." || len(p.match) == 0) {
				t.Errorf("%+v", p)
			}
		}
	})
}
