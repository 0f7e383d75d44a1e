package journal

import (
	"bytes"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/journal"
	"github.com/google/go-cmp/cmp"
)

type entry struct {
	Message  string
	Priority journal.Priority
	Fields   map[string]string
}

func TestRecords(t *testing.T) {
	tests := []struct {
		name string
		log  func(*slog.Logger)
		want entry
	}{
		{"a line of output", func(l *slog.Logger) {
			l.With("source", "remote", "plan", "0123").With("instruction", "install").Info("output", "stream", "stderr", "line", `text with "=" in it`)
		}, entry{`install[stderr]: text with "=" in it`, journal.PriInfo, map[string]string{
			"DROVER_SOURCE": "remote", "DROVER_PLAN": "0123", "DROVER_INSTRUCTION": "install", "DROVER_STREAM": "stderr"}}},
		{"an empty line of output", func(l *slog.Logger) {
			l.Info("output", "instruction", "i", "stream", "stdout", "line", "")
		}, entry{`i[stdout]: `, journal.PriInfo, map[string]string{"DROVER_INSTRUCTION": "i", "DROVER_STREAM": "stdout"}}},
		{"attributes", func(l *slog.Logger) {
			l.Error("it broke", "exitCode", 3, "took", 1500*time.Millisecond, "error", errors.New("a\nb"), "why", "")
		}, entry{`it broke exitCode=3 took=1.5s error="a\nb" why=""`, journal.PriErr, map[string]string{
			"DROVER_EXIT_CODE": "3", "DROVER_TOOK": "1.5s", "DROVER_ERROR": "a\nb", "DROVER_WHY": ""}}},
		{"groups", func(l *slog.Logger) {
			l.WithGroup("a").With("b", 1).Warn("m", slog.Group("c", "d", "e"))
		}, entry{`m a.b=1 a.c.d=e`, journal.PriWarning, map[string]string{"DROVER_A_B": "1", "DROVER_A_C_D": "e"}}},
		{"odd and long names", func(l *slog.Logger) {
			l.Debug("m", "é-1", "v", strings.Repeat("x", 80), "w")
		}, entry{"m é-1=v " + strings.Repeat("x", 80) + "=w", journal.PriDebug, map[string]string{
			"DROVER___1": "v", "DROVER_" + strings.Repeat("X", 57): "w"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got entry
			send := func(message string, p journal.Priority, fields map[string]string) error {
				got = entry{message, p, maps.Clone(fields)}
				return nil
			}
			tt.log(slog.New(New("agent", send, slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))))
			if got.Fields["SYSLOG_IDENTIFIER"] != "agent" {
				t.Errorf("SYSLOG_IDENTIFIER %q", got.Fields["SYSLOG_IDENTIFIER"])
			}
			delete(got.Fields, "SYSLOG_IDENTIFIER")
			delete(got.Fields, "SYSLOG_PID")
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestSiblingsDoNotShareFields(t *testing.T) {
	var got map[string]string
	send := func(_ string, _ journal.Priority, fields map[string]string) error { got = fields; return nil }
	parent := slog.New(New("agent", send, slog.DiscardHandler)).With("a", 1, "b", 2, "c", 3)
	one, other := parent.With("d", "one"), parent.With("d", "other")
	_ = other
	h := one.Handler()
	r := slog.NewRecord(time.Time{}, slog.LevelInfo, "m", 0)
	if err := h.Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got["DROVER_D"] != "one" {
		t.Errorf("DROVER_D is %q", got["DROVER_D"])
	}
}

func TestWhatTheJournalDoesNotTakeIsNotLost(t *testing.T) {
	var out bytes.Buffer
	h := New("agent", func(string, journal.Priority, map[string]string) error { return errors.New("gone") }, slog.NewTextHandler(&out, nil))
	log := slog.New(h).With("source", "remote")
	log.Debug("below the level")
	log.Info("said", "a", "b")
	if s := out.String(); !strings.Contains(s, "msg=said source=remote a=b") || strings.Contains(s, "below") {
		t.Errorf("the spare handler wrote %q", s)
	}
}
