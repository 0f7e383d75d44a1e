package credentials

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const pluginHead = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"

func answerOf(kind, rest string) string {
	return `{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"` + kind + `"` + rest + `}`
}

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
		{"wrong variable", one("env=[{name: 'a=b', value: hush}]"), "line 8: providers[0].env[0]: name is missing or is not a valid name of a variable"},
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

// TestAPluginEndsWhole: a plugin that gives no answer in time is killed with the programs that it has started.
func TestAPluginEndsWhole(t *testing.T) {
	dir := t.TempDir()
	child := filepath.Join(dir, "child")
	if err := os.WriteFile(filepath.Join(dir, "slow"), []byte("#!/bin/sh\nsleep 300 &\necho $! >"+child+"\nwait\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Plugins{Dir: dir, Timeout: 500 * time.Millisecond}.ask(t.Context(), plugin{name: "slow", apiVersion: "credentialprovider.kubelet.k8s.io/v1"}, "docker.io/library/busybox")
	if err == nil || !strings.Contains(err.Error(), "did not answer within 500ms and was killed") {
		t.Fatal(err)
	}
	text, err := os.ReadFile(child)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") { // killed, and perhaps not waited for yet
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d of the plugin goes on", pid)
		}
	}
}
