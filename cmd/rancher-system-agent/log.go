// The agent's log: records for the journal, lines for everything else. A journal that
// only gets lines has a clock of its own and knows priorities by a mark at their beginning.

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/drover-project/drover/daemon/journal"
)

// levels are logrus' names, which operators have in their units.
var levels = map[string]slog.Level{
	"":      slog.LevelInfo,
	"panic": slog.LevelError, "fatal": slog.LevelError, "error": slog.LevelError,
	"warn": slog.LevelWarn, "warning": slog.LevelWarn,
	"info": slog.LevelInfo, "debug": slog.LevelDebug, "trace": slog.LevelDebug - 4,
}

func parseLevel(s string) (slog.Level, error) {
	level, ok := levels[strings.ToLower(s)]
	if !ok {
		return 0, fmt.Errorf("CATTLE_LOGLEVEL %.40q is none of trace, debug, info, warn and error", s)
	}
	return level, nil
}

// newLogger writes to the journal when standard output is one, else text lines.
func newLogger(w io.Writer, level slog.Level, env func(string) string) *slog.Logger {
	lines := newLines(w, level, env("JOURNAL_STREAM") != "")
	if journal.Here() {
		return slog.New(journal.New(name, nil, lines.Handler()))
	}
	return lines
}

// newLines writes text lines, for the journal with priorities and without times.
func newLines(w io.Writer, level slog.Level, toJournal bool) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if !toJournal {
		return slog.New(slog.NewTextHandler(w, o))
	}
	o.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	h := priorities{}
	for i, mark := range []string{"<3>", "<4>", "<6>", "<7>"} {
		h[i] = slog.NewTextHandler(marked{w, mark}, o)
	}
	return slog.New(h)
}

// marked puts a mark in front of each line; a text handler writes one line at a time.
type marked struct {
	w    io.Writer
	mark string
}

func (m marked) Write(p []byte) (int, error) {
	if _, err := m.w.Write(append([]byte(m.mark), p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// priorities are handlers for errors, warnings, information and the rest.
type priorities [4]slog.Handler

func (h priorities) of(level slog.Level) slog.Handler {
	switch {
	case level >= slog.LevelError:
		return h[0]
	case level >= slog.LevelWarn:
		return h[1]
	case level >= slog.LevelInfo:
		return h[2]
	}
	return h[3]
}

func (h priorities) Enabled(ctx context.Context, level slog.Level) bool {
	return h.of(level).Enabled(ctx, level)
}

func (h priorities) Handle(ctx context.Context, r slog.Record) error {
	return h.of(r.Level).Handle(ctx, r)
}

func (h priorities) WithAttrs(attrs []slog.Attr) slog.Handler {
	for i := range h {
		h[i] = h[i].WithAttrs(attrs)
	}
	return h
}

func (h priorities) WithGroup(name string) slog.Handler {
	for i := range h {
		h[i] = h[i].WithGroup(name)
	}
	return h
}
