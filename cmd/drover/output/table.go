// Tables for people.

package output

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/plans"
)

// Table collects rows; its first row is the heading.
type Table struct {
	rows [][]string
	wide bool
	// narrow is how many columns are shown without -o wide; 0 is all.
	narrow int
}

// Wide says that the columns after the first n are for -o wide alone, and whether they are wanted.
func (t *Table) Wide(n int) bool {
	t.narrow = n
	return t.wide
}

// Row adds a row. What would end a row or a cell in the middle, as a line break of an error does, becomes a space.
func (t *Table) Row(cells ...string) {
	if t.narrow > 0 && !t.wide {
		cells = cells[:min(len(cells), t.narrow)]
	}
	clean := make([]string, len(cells))
	for i, cell := range cells {
		clean[i] = Clean(cell)
	}
	t.rows = append(t.rows, clean)
}

// Clean makes one line of a text from elsewhere, which does nothing to a terminal.
func Clean(text string) string {
	return plans.SafeLine(breaks.Replace(strings.TrimRight(text, "\r\n")))
}

// breaks become spaces.
var breaks = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")

// print lays the rows out, and marks headings and states when it may colour them.
func (t *Table) print(out io.Writer, colour bool) error {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 4, 3, ' ', 0)
	for _, row := range t.rows {
		fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if !colour {
		_, err := io.WriteString(out, text.String())
		return err
	}
	lines := strings.SplitAfter(text.String(), "\n")
	var heading []string
	for i, row := range t.rows {
		line := lines[i]
		if isHeading(row) {
			heading, line = row, paint(bold, strings.TrimSuffix(line, "\n"))+"\n"
		} else {
			line = colourRow(line, row, heading)
		}
		if _, err := io.WriteString(out, line); err != nil {
			return err
		}
	}
	return nil
}

// isHeading says that all cells are in capitals, and some have letters.
func isHeading(row []string) bool {
	all := strings.Join(row, " ")
	return len(row) > 1 && all == strings.ToUpper(all) && strings.ToLower(all) != all && !strings.ContainsAny(all, "0123456789")
}

// The marks of terminals (ECMA-48).
const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

func paint(mark, text string) string { return mark + text + plain }

// Error is the word that errors begin with on standard error.
func Error(errs io.Writer, environ func(string) string) string {
	if Coloured(errs, environ) {
		return paint(red, "error:")
	}
	return "error:"
}

// Paint colours the state of something, where it is one that is good, bad or on its way.
func Paint(state string) string {
	if mark := colourOf(state); mark != "" {
		return paint(mark, state)
	}
	return state
}

// colourRow colours the state of a row below a heading STATE, or behind the word state.
func colourRow(line string, row, heading []string) string {
	column := slices.Index(heading, "STATE")
	if heading == nil && len(row) > 1 && row[0] == "state" {
		column = 1
	}
	if column < 0 || column >= len(row) {
		return line
	}
	at := 0
	for i, cell := range row[:column+1] {
		next := strings.Index(line[at:], cell)
		if next < 0 {
			return line
		}
		at += next
		if i < column {
			at += len(cell)
		}
	}
	state := row[column]
	return line[:at] + Paint(state) + line[at+len(state):]
}

// colourOf is the mark of a state.
func colourOf(state string) string {
	word, _, _ := strings.Cut(strings.ToLower(state), ":")
	switch word {
	case string(apitypes.ClusterActive), string(apitypes.OperationSucceeded), "enabled", "done", "ready":
		return green
	case string(apitypes.OperationFailed), string(apitypes.ClusterError), string(apitypes.ClusterUnavailable), "disconnected", "refused", "partial":
		return red
	case string(apitypes.OperationAborted), "disabled", "", "-":
		return ""
	}
	return yellow
}
