// Printing: the same value as a table for people, or as JSON or YAML for programs.

package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"gopkg.in/yaml.v3"
)

// table collects rows; its first row is the heading.
type table struct{ rows [][]string }

// row adds a row. What would end a row or a cell in the middle, as a line break of an error does, becomes a space.
func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ").Replace(strings.TrimRight(cell, "\r\n"))
	}
	t.rows = append(t.rows, cells)
}

// hint says what to do next beside a table that is empty; programs that read it are not bothered.
func (a *app) hint(empty bool, text string) {
	if empty && a.tabular() {
		fmt.Fprintln(a.Err, text)
	}
}

// tabular says that people read the output.
func (a *app) tabular() bool { return a.format == "table" || a.format == "" }

// checkFormat refuses an unknown format, for commands that print late.
func (a *app) checkFormat() error {
	if a.tabular() || a.format == "json" || a.format == "yaml" {
		return nil
	}
	return usage("-o %s: the formats are table, json and yaml", a.format)
}

// show prints a value in the wanted format.
func (a *app) show(value any, fill func(*table)) error {
	switch a.format {
	case "json":
		encoder := json.NewEncoder(a.Out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(value)
	case "yaml":
		// Through JSON, so that both formats have the same names.
		b, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("print yaml: %w", err)
		}
		var plain any
		if err := yaml.Unmarshal(b, &plain); err != nil {
			return fmt.Errorf("print yaml: %w", err)
		}
		encoder := yaml.NewEncoder(a.Out)
		encoder.SetIndent(2)
		return encoder.Encode(plain)
	default:
		if err := a.checkFormat(); err != nil {
			return err
		}
		var t table
		fill(&t)
		w := tabwriter.NewWriter(a.Out, 0, 4, 3, ' ', 0)
		for _, row := range t.rows {
			fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t"))
		}
		return w.Flush()
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
