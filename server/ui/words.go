// How pages write times, sizes and texts.

package ui

import (
	"fmt"
	"html/template"
	"strings"
	"time"
)

// stamp is a time as people read it without a script, which makes an age of it.
func stamp(t time.Time) template.HTML {
	if t.IsZero() {
		return ""
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `">` + t.Format("2006-01-02 15:04:05 UTC") + `</time>`) // #nosec G203 -- digits alone
}

// area is a text between the tags of a textarea, of which browsers drop one empty line at the begin.
func area(text string) string {
	if strings.HasPrefix(text, "\n") {
		return "\n" + text
	}
	return text
}

// lines are the lines of a text.
func lines(text string) []string { return strings.Split(strings.TrimRight(text, "\n"), "\n") }

// side is what a line of a diff means.
func side(line string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return "added"
	case strings.HasPrefix(line, "-"):
		return "taken"
	case strings.HasPrefix(line, "@@"):
		return "quiet"
	}
	return ""
}

// span is a time between two others.
func span(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d <= 0:
		return ""
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// sizeOf is a number of bytes as people read it.
func sizeOf(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

// percent is how much of a total is done.
func percent(done, total int) int {
	if total == 0 {
		return 0
	}
	return done * 100 / total
}

// short is the begin of a checksum.
func short(s string) string { return s[:min(len(s), 12)] }
