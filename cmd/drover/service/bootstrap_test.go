package service

import (
	"io"
	"os"
	"strings"
	"testing"
)

// TestTheBootstrapPasswordLeavesTheEnvironment: what the server starts inherits its environment.
func TestTheBootstrapPasswordLeavesTheEnvironment(t *testing.T) {
	const own, ranchers = "DROVER_BOOTSTRAP_PASSWORD", "CATTLE_BOOTSTRAP_PASSWORD"
	for _, test := range []struct {
		name, want string
		set        map[string]string
	}{
		{"none", "", nil},
		{"drover's", "secret one", map[string]string{own: "secret one"}},
		{"Rancher's", "secret two", map[string]string{ranchers: "secret two"}},
		{"both", "secret one", map[string]string{own: "secret one", ranchers: "secret two"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, value := range test.set {
				t.Setenv(name, value)
			}
			dir := t.TempDir()
			a := &App{Environ: os.Getenv, DataDir: func() string { return dir }, Out: io.Discard, Err: io.Discard}
			flags := serverFlags{logLevel: "info"}
			flags.Listen = "127.0.0.1:0"
			o, err := flags.options(a)
			if err != nil {
				t.Fatal(err)
			}
			if o.BootstrapPassword != test.want {
				t.Errorf("the password is %q, want %q", o.BootstrapPassword, test.want)
			}
			for _, line := range os.Environ() {
				if strings.Contains(line, "secret") || strings.Contains(line, "BOOTSTRAP_PASSWORD") {
					t.Errorf("the environment still has %s", line)
				}
			}
		})
	}
}
