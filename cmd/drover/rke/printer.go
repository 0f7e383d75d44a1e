// What a run prints: lines as users of rke know them, with the seconds since it began.

package rke

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/advice"
)

// printer is the report of a run on a terminal or in a log. Standard output stays free for results.
type printer struct {
	out   io.Writer
	began time.Time
	quiet bool // lines are left out, warnings are not
	mu    sync.Mutex
}

func newPrinter(out io.Writer) *printer { return &printer{out: out, began: time.Now()} }

// Phase begins a part of the run. What it does says so itself.
func (p *printer) Phase(string, string) {}

// Line is one thing that was done or seen.
func (p *printer) Line(text string) {
	if !p.quiet {
		p.print("INFO", text)
	}
}

// Warn is something that a person should know of, and do.
func (p *printer) Warn(text string, steps ...advice.Step) {
	p.print("WARN", advice.Sentence(text, steps, words))
}

func (p *printer) print(level, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "%s[%04d] %s\n", level, int(time.Since(p.began).Seconds()), text)
}

// Write takes the lines of a logger.
func (p *printer) Write(b []byte) (int, error) {
	p.Line(strings.TrimSpace(string(b)))
	return len(b), nil
}

func (p *printer) warnings(all strictyaml.Errors) {
	for _, w := range all {
		p.Warn(w.Error())
	}
}
