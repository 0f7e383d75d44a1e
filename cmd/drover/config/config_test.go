package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// server are flags as those of drover server.
func server(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	flags.String("listen", ":8443", "")
	flags.StringSlice("tls-san", nil, "")
	flags.Bool("backup-with-keys", false, "")
	flags.Duration("backup-every", 24*time.Hour, "")
	flags.Int("backup-keep", 7, "")
	flags.String("token", "", "")
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags
}

func isKey(flag *pflag.Flag) bool { return flag.Name != "token" }

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "drover.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestFlagsWin: a value is the command line's, else the file's, else the default, and each says where it is from.
func TestFlagsWin(t *testing.T) {
	path := write(t, "# of one server\nlisten: 192.0.2.1:443\ntls-san: [a.example, b.example]\nbackup-with-keys: true\nbackup-every: 6h\n")
	f, err := Read(path, true)
	if err != nil {
		t.Fatal(err)
	}
	flags := server(t, "--backup-every=1h")
	if err := f.Into(flags, isKey); err != nil {
		t.Fatal(err)
	}
	want := []Value{
		{"backup-every", "1h0m0s", "flag"},
		{"backup-keep", "7", "default"},
		{"backup-with-keys", "true", path + ":4"},
		{"listen", "192.0.2.1:443", path + ":2"},
		{"tls-san", "a.example,b.example", path + ":3"},
	}
	if diff := cmp.Diff(want, f.Effective(flags, isKey)); diff != "" {
		t.Error(diff)
	}
	if f.Text("listen") != "192.0.2.1:443" || f.Text("tls-san") != "" || f.Text("none") != "" {
		t.Error(f)
	}
}

// TestMistakes: each has its line, and what may have been meant.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"unknown", "listen: :1\nlisten-on: :2\n", `:2: there is no key "listen-on"; did you mean listen?`},
		{"a flag that is no key", "token: secret\n", `there is no key "token"`},
		{"twice", "listen: :1\nlisten: :2\n", "line 2: listen is there twice, first in line 1"},
		{"not a number", "backup-keep: many\n", `:1: backup-keep: "many" is no int`},
		{"a list", "listen: [a, b]\n", "listen: one value belongs here, and not a list"},
		{"a mapping", "listen: {port: 1}\n", "line 1: listen: a list is expected"},
		{"not a mapping", "- listen\n", "a mapping is expected"},
		{"two documents", "listen: :1\n---\nlisten: :2\n", "a second document begins"},
		{"no YAML", "listen: [\n", "drover.yaml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, c.text)
			f, err := Read(path, true)
			if err == nil {
				err = f.Into(server(t), isKey)
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Error("the value is in the error")
			}
		})
	}
}

// TestNoFile is a server without one, unless it was named.
func TestNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.yaml")
	f, err := Read(path, false)
	if err != nil || f.Path != "" || f.Into(server(t), isKey) != nil {
		t.Error(f, err)
	}
	if _, err := Read(path, true); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	if f, err := Read(write(t, "# nothing yet\n"), true); err != nil || f.Into(server(t), isKey) != nil {
		t.Error(err)
	}
}
