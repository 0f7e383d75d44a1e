package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/engine/run"
)

// Certificates that have ended, or will, are said before anything else, with the way out; others are not.
func TestCertificatesThatEnd(t *testing.T) {
	for name, c := range map[string]struct {
		later time.Duration
		says  string
	}{
		"new":            {0, ""},
		"years from now": {9 * 365 * 24 * time.Hour, ""},
		"soon":           {3600 * 24 * time.Hour, "WARN kube-"},
		"ended":          {3700 * 24 * time.Hour, "ended"},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, yml)
			s, _, err := run.Init(y.work, y.o.Source())
			if err != nil {
				t.Fatal(err)
			}
			y.work.Before = s.Deployed()
			y.o.Now = func() time.Time { return noon.Add(c.later) }
			r := run.New(y.o, y.work)
			warnOfEnds(r)
			if c.says == "" && len(y.lines) == 0 {
				return
			}
			ok := slices.ContainsFunc(y.lines, func(line string) bool {
				return strings.Contains(line, c.says) && strings.HasSuffix(line, fmt.Sprintf(": step %d", advice.RenewCertificates))
			})
			if !ok || c.says == "" || len(y.lines) > 4 || strings.Contains(strings.Join(y.lines, " "), "kube-admin") {
				t.Errorf("said %q", y.lines)
			}
		})
	}
}
