//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// wantSoundUnit has a host's systemd verify a unit. That it verifies at all is seen by a copy
// with a key that no unit has.
func wantSoundUnit(t testing.TB, unit string, sh func(script string) (string, error)) {
	t.Helper()
	name := unit[strings.LastIndex(unit, "/")+1:]
	out, err := sh("command -v systemd-analyze && systemd-analyze verify --man=no " + unit + " 2>&1; true")
	if err != nil || !strings.Contains(out, "systemd-analyze") {
		t.Fatalf("systemd-analyze is missing on the host: %v: %s", err, out)
	}
	if strings.Contains(out, name) { // others' units are not asked about
		t.Errorf("systemd-analyze verify says: %s", out)
	}
	out, err = sh("mkdir -p /tmp/verify && { cat " + unit + "; echo; echo '[Service]'; echo NoSuchKey=1; } > /tmp/verify/" + name +
		" && { systemd-analyze verify --man=no /tmp/verify/" + name + " 2>&1; rm -r /tmp/verify; }")
	if err != nil || !strings.Contains(out, "NoSuchKey") {
		t.Errorf("systemd-analyze verify does not see an unknown key: %v: %s", err, out)
	}
}
