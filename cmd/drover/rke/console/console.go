// Package console is what a run of `drover rke` prints: lines as users of rke know them, with the seconds since it began, and what can be
// done about an error as its commands.
package console

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/advice"
)

// Printer is the report of a run on a terminal or in a log. Standard output stays free for results.
type Printer struct {
	// Quiet leaves lines out, and warnings not.
	Quiet bool

	out   io.Writer
	began time.Time
	mu    sync.Mutex
}

// New is a printer whose run begins now.
func New(out io.Writer) *Printer { return &Printer{out: out, began: time.Now()} }

// Phase begins a part of the run. What it does says so itself.
func (p *Printer) Phase(string, string) {}

// Line is one thing that was done or seen.
func (p *Printer) Line(text string) {
	if !p.Quiet {
		p.print("INFO", text)
	}
}

// Warn is something that a person should know of, and do.
func (p *Printer) Warn(text string, steps ...advice.Step) {
	p.print("WARN", advice.Sentence(text, steps, Words))
}

func (p *Printer) print(level, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "%s[%04d] %s\n", level, int(time.Since(p.began).Seconds()), text)
}

// Warnings are those of a file.
func (p *Printer) Warnings(all strictyaml.Errors) {
	for _, w := range all {
		p.Warn(w.Error())
	}
}

// Debug is a logger whose lines are those of --debug.
func (p *Printer) Debug() *slog.Logger {
	return slog.New(slog.NewTextHandler(debugged{p}, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: withoutTime}))
}

// debugged takes the lines of a logger for --debug.
type debugged struct{ to *Printer }

func (d debugged) Write(line []byte) (int, error) {
	d.to.print("DEBU", strings.TrimSpace(string(line)))
	return len(line), nil
}

// withoutTime drops the time of a log line: the printer has its own.
func withoutTime(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && attr.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return attr
}
