// The one table that comes out.

package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// table collects the measures in the order of their making.
type table struct{ rows [][4]string }

func newTable() *table { return &table{} }

// measure adds a value with its budget; less is better.
func (t *table) measure(what, measured string, value float64, budget string, limit float64) {
	ok := "yes"
	if value > limit {
		ok = "NO"
	}
	t.rows = append(t.rows, [4]string{what, measured, budget, ok})
}

// note adds a value that has no budget.
func (t *table) note(what, measured string) {
	t.rows = append(t.rows, [4]string{what, measured, "", ""})
}

func (t *table) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tMEASURED\tBUDGET\tOK")
	for _, r := range t.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r[0], r[1], r[2], r[3])
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	return nil
}

// bytes adds a size in bytes with its budget in MiB.
func (t *table) bytes(what string, value int64, budget float64) {
	t.measure(what, inMiB(value), mib(value), fmt.Sprintf("≤ %g MiB", budget), budget)
}

// latencies adds the median, with the 99th percentile beside it; a budget of 0 is none.
func (t *table) latencies(what string, all []time.Duration, budget time.Duration) {
	slices.Sort(all)
	median, late := all[len(all)/2], all[len(all)*99/100]
	text := fmt.Sprintf("median %s, p99 %s", inMillis(median), inMillis(late))
	if budget == 0 {
		t.note(what, text)
		return
	}
	t.measure(what, text, float64(median), fmt.Sprintf("≤ %g ms median", millis(budget)), float64(budget))
}

func mib(bytes int64) float64         { return float64(bytes) / (1 << 20) }
func inMiB(bytes int64) string        { return fmt.Sprintf("%.1f MiB", mib(bytes)) }
func kib(bytes float64) string        { return fmt.Sprintf("%.1f KiB", bytes/(1<<10)) }
func millis(d time.Duration) float64  { return float64(d) / float64(time.Millisecond) }
func inMillis(d time.Duration) string { return fmt.Sprintf("%.1f ms", millis(d)) }
