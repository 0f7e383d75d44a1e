// What templates call.

package ui

import (
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/server/ui/picture"
)

func (u *UI) functions() template.FuncMap {
	return template.FuncMap{
		"asset": u.assetURL, "home": func() string { return Home }, "tone": picture.Tone, "mark": picture.Mark, "time": stamp, "span": span, "size": size,
		"cluster": ClusterURL, "machine": MachineURL, "operation": OperationURL, "fleet": FleetURL, "percent": percent, "join": strings.Join, "quoted": Quoted,
		"version": ShownVersion, "host": picture.Host, "ended": ended, "short": short, "lines": lines, "side": side, "why": whyCommand, "area": area, "rare": rare,
	}
}

func pathOf(kind, key string) string {
	namespace, name, _ := strings.Cut(key, "/")
	return Home + kind + "/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

// ClusterURL is the page of a cluster by its key.
func ClusterURL(key string) string { return pathOf("clusters", key) }

// MachineURL is the page of a machine by its key.
func MachineURL(key string) string { return pathOf("machines", key) }

// OperationURL is the page of an operation.
func OperationURL(id string) string { return Home + "operations/" + url.PathEscape(id) }

// FleetURL is the page of a fleet.
func FleetURL(name string) string { return Home + "fleets/" + url.PathEscape(name) }

// stamp is a time as people read it without a script, which makes an age of it.
func stamp(t time.Time) template.HTML {
	if t.IsZero() {
		return ""
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339) + `">` + t.Format("2006-01-02 15:04:05 UTC") + `</time>`) //nolint:gosec // digits alone
}

// area is a text between the tags of a textarea, of which browsers drop one empty line at the begin.
func area(text string) string {
	if strings.HasPrefix(text, "\n") {
		return "\n" + text
	}
	return text
}

// rare are the offers that are not made at the first look.
func rare(all []Offer) []Offer {
	return slices.DeleteFunc(slices.Clone(all), func(o Offer) bool { return !o.Rare })
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

// size is a number of bytes as people read it.
func size(n int64) string {
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

func percent(done, total int) int {
	if total == 0 {
		return 0
	}
	return done * 100 / total
}

// short is the begin of a checksum.
func short(s string) string { return s[:min(len(s), 12)] }

// whyCommand is the command that shows causes.
func whyCommand(name string) string { return "drover why " + Quoted(name) }
