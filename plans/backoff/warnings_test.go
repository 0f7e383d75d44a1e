package backoff

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestWarningsAreSummed: a night of one trouble is a few lines; another trouble is one of its own.
func TestWarningsAreSummed(t *testing.T) {
	var log bytes.Buffer
	l := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "since" || a.Key == "next" || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
	var w Warnings
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	now := noon
	for range 240 { // an hour of it
		w.Log(l, Warning{"away", errors.New("refused"), noon, time.Second}, now)
		now = now.Add(15 * time.Second)
	}
	w.Log(l, Warning{"away", errors.New("another"), noon, time.Second}, now)
	w.Log(l, Warning{"away", errors.New("another"), noon, time.Second}, now)
	w.Over("away")
	w.Log(l, Warning{"away", errors.New("another"), noon, time.Second}, now)
	var want strings.Builder
	fmt.Fprintln(&want, "msg=away error=refused")
	for _, n := range []int{4, 8, 16, 32, 64} {
		fmt.Fprintf(&want, "msg=away times=%d error=refused\n", n)
	}
	want.WriteString("msg=away error=another\nmsg=away error=another\n")
	if diff := cmp.Diff(want.String(), log.String()); diff != "" {
		t.Error(diff)
	}
}
