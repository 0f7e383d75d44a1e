package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestObjectPath(t *testing.T) {
	for text, want := range map[string]string{
		"secret/mirror":       "/v1-drover/objects/Secret/fleet-default/mirror",
		"ConfigMap/n/app.cfg": "/v1-drover/objects/ConfigMap/n/app.cfg",
		"mirror":              "", "secret/": "", "secret//x": "", "pod/x": "", "secret/a/b/c": "", "secret/a?b": "",
	} {
		if got, err := objectPath(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

func TestObjectsComeAndGo(t *testing.T) {
	l := startLive(t)
	file := filepath.Join(t.TempDir(), "mirror.yaml")
	if err := os.WriteFile(file, []byte("{apiVersion: v1, kind: Secret, metadata: {name: mirror}, stringData: {a: b}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"apply", "-f", file}, `^secret fleet-default/mirror +created\n$`},
		{[]string{"apply", "-f", file}, `^secret fleet-default/mirror +unchanged\n$`},
		{[]string{"objects", "ls"}, `(?m)^Secret +fleet-default +mirror +Opaque$`},
		{[]string{"objects", "rm", "secret/mirror"}, `^$`},
		{[]string{"objects", "ls", "-o", "json"}, `^\[\]\n$`},
	} {
		if out := l.drover(c.args...); !regexp.MustCompile(c.want).MatchString(out) {
			t.Errorf("%q: %q, want %s", c.args, out, c.want)
		}
	}
}
