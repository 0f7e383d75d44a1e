package image

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/drover-project/drover/installers/image/credentials"
	"github.com/drover-project/drover/test/skips"
)

const pluginHead = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"

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
		Plugins: credentials.Plugins{Config: config, Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH")}, Timeout: 30 * time.Second},
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
	if err := bed.Stage(t.Context(), bed.host+"/inst/a:1", t.TempDir(), nil); err != nil {
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
	if err := bed.Stage(t.Context(), bed.host+"/inst/b:1", t.TempDir(), nil); err == nil || bed.times(t) != 1 || bed.logins[len(bed.logins)-1] != "other:pw-pw" {
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
				if err := bed.Stage(t.Context(), bed.host+"/inst/"+image+":1", t.TempDir(), nil); err != nil {
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
		{"wrong key", printing(answerOf("Image", `,"auth":{"a.io/*":{"password":"hush-hush"}}`)), "auth of what it printed has a key that is neither an image nor a pattern of images"},
		{"too much", "exec cat /dev/zero\n", "it printed more than 1048576 bytes"},
		{"for ever", "sleep 1000 & wait\n", "it did not answer within 300ms and was killed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bed := newPluginBed(t, test.script, "HOST", "1h")
			if test.name == "for ever" {
				bed.Plugins.Timeout = 300 * time.Millisecond
			}
			err := bed.Stage(t.Context(), bed.host+"/inst/a:1", t.TempDir(), nil)
			if err == nil || !strings.HasSuffix(err.Error(), "; asked without credentials; the credential plugin provider failed: "+test.want) {
				t.Errorf("error %v\nwant  …%s", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "hush-hush") {
				t.Errorf("the error shows a password: %v", err)
			}
		})
	}
}

// TestChildrenOfAPluginAreKilledWithIt: one that took too long leaves nothing running.
func TestChildrenOfAPluginAreKilledWithIt(t *testing.T) {
	bed := newPluginBed(t, "sleep 1000 & echo $! > ASKED.child; wait\n", "HOST", "1h")
	bed.Plugins.Timeout = 2 * time.Second
	if err := bed.Stage(t.Context(), bed.host+"/inst/a:1", t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "did not answer within 2s and was killed") {
		t.Fatalf("error %v", err)
	}
	text, err := os.ReadFile(bed.asked + ".child")
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	runs := func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		return err == nil && !strings.Contains(string(state), ") Z ")
	}
	for end := time.Now().Add(10 * time.Second); runs(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			_ = syscall.Kill(child, syscall.SIGKILL)
			t.Fatal("the child of the plugin still runs")
		}
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
		{"its group can write the program", func(b *pluginBed) error { return os.Chmod(filepath.Join(b.Plugins.Dir, "provider"), 0o720) }, "can be written by others than root"},
		{"its group can write the configuration", func(b *pluginBed) error { return os.Chmod(b.Plugins.Config, 0o620) }, "read the configuration of credential plugins: "},
		{"the program is another's", func(b *pluginBed) error { return os.Chown(filepath.Join(b.Plugins.Dir, "provider"), 4711, -1) }, "can be written by others than root"},
		{"the configuration is another's", func(b *pluginBed) error { return os.Chown(b.Plugins.Config, 4711, -1) }, "read the configuration of credential plugins: "},
		{"others can write the configuration", func(b *pluginBed) error { return os.Chmod(b.Plugins.Config, 0o666) }, "read the configuration of credential plugins: "},
		{"the configuration is wrong", func(b *pluginBed) error { return os.WriteFile(b.Plugins.Config, []byte("kind: x"), 0o600) }, "config.yaml: apiVersion is missing"},
		{"there is no configuration", func(b *pluginBed) error { return os.Remove(b.Plugins.Config) }, "asked without credentials"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if strings.HasSuffix(test.name, "another's") && os.Getuid() != 0 {
				skips.Skip(t, "only root may give files away")
			}
			bed := newPluginBed(t, printing(answerOf("Image", ","+login)), "HOST", "1h")
			if err := test.change(bed); err != nil {
				t.Fatal(err)
			}
			if err := bed.Stage(t.Context(), bed.host+"/inst/a:1", t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), test.want) || bed.times(t) != 0 {
				t.Errorf("error %v, want %s; asked %d times", err, test.want, bed.times(t))
			}
		})
	}
}
