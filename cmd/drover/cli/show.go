// Printing: see package output. Here is what all commands of this package say beside it.

package cli

import (
	"fmt"
	"time"

	"github.com/drover-project/drover/cmd/drover/output"
)

type table = output.Table

// printer prints in the format that was asked for. Any other was refused before any command ran.
func (a *app) printer() output.Printer {
	format, err := output.Parse(a.format)
	if err != nil {
		format, _ = output.Parse("") // which is the table
	}
	return output.Printer{Out: a.Out, Format: format, Colour: output.Coloured(a.Out, a.environ)}
}

// show prints a value in the wanted format.
func (a *app) show(value any, fill func(*table)) error { return a.printer().Show(value, fill) }

// tabular says that people read the output.
func (a *app) tabular() bool { return a.printer().Format.Tabular() }

// hint says what to do next, as beside a table that is empty; programs that read it get none, and "" prints nothing.
func (a *app) hint(when bool, text string) {
	if when && text != "" && a.tabular() {
		fmt.Fprintln(a.Err, text)
	}
}

// ago is how long ago something was, in the one or two largest units.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := now.Sub(t).Truncate(time.Second)
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
