// What templates call.

package ui

import (
	"html/template"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/ui/picture"
)

func (u *UI) functions() template.FuncMap {
	return template.FuncMap{
		"asset": u.assetURL, "home": func() string { return Home }, "tone": picture.Tone, "mark": picture.Mark, "time": stamp, "span": span, "size": sizeOf,
		"cluster": ClusterURL, "machine": MachineURL, "operation": OperationURL, "fleet": FleetURL, "percent": percent, "join": strings.Join, "quoted": Quoted,
		"host": picture.Host, "ended": ended, "short": short, "lines": lines, "side": side, "why": whyCommand, "area": area, "rare": rare,
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

// rare are the offers that are not made at the first look.
func rare(all []Offer) []Offer {
	return slices.DeleteFunc(slices.Clone(all), func(o Offer) bool { return !o.Rare })
}

// whyCommand is the command that shows causes.
func whyCommand(name string) string { return "drover why " + Quoted(name) }
