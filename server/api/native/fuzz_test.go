package native

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/views"
)

// FuzzHostLog holds, for whatever a host sends as the journal of a unit, that what is shown of it is bounded text.
func FuzzHostLog(f *testing.F) {
	f.Add("Jan 02 03:04:05 n1 k3s[1]: level=fatal msg=\"no\"\r\nJan 02 03:04:06 n1 systemd[1]: k3s.service: Failed\n-- No entries --\n")
	f.Add("\xff\xfe\x1b[2J\x9b31m" + strings.Repeat("ä", 4000) + "\n\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		h := hostLogs{a: Why{AskAgent: func(context.Context, records.Subject, string) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text))}, nil
		}}}
		lines, err := h.of(t.Context(), records.Machine{}, "k3s")
		if err != nil || len(lines) > views.CauseLines {
			t.Fatalf("%d lines, %v", len(lines), err)
		}
		for _, line := range lines {
			if len(line) > maxLogLine || !utf8.ValidString(line) || strings.ContainsAny(line, "\n") {
				t.Errorf("shown: %q", line)
			}
		}
	})
}
