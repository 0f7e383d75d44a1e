package hosts

import (
	"strings"
	"testing"
)

// TestReleaseOf: what an agent says of itself is believed when it is the name of a release, and else not known.
func TestReleaseOf(t *testing.T) {
	for given, want := range map[string]string{
		"rancher-system-agent/v0.9.7 (linux/amd64) drover":              "v0.9.7",
		"rancher-agent/v0.9.8-rc.1+dirty (linux/arm64) drover":          "v0.9.8-rc.1+dirty",
		"rancher-system-agent/v0.3.13 (linux/amd64) kubernetes/$Format": "",
		"Go-http-client/1.1": "",
		"":                   "",
		"drover":             "",
		"x drover":           "",
		"x/<b>1</b> drover":  "",
		"x/" + strings.Repeat("1", 65) + " drover":                 "",
		"rancher-system-agent/v0.9.7\x1b[31m (linux/amd64) drover": "",
		"rancher-system-agent/../../etc (linux/amd64) drover":      "",
	} {
		if got := releaseOf(given); got != want {
			t.Errorf("%q is of release %q, want %q", given, got, want)
		}
	}
}
