// Answers for assets and pages, as browsers take them, and what templates call.

package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"k8s.io/utils/lru"

	"github.com/drover-project/drover/docs"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
)

// Asset is the handler of GET /dashboard/assets/{name}.
func (u *UI) Asset(c *route.Call) (route.Answer, error) {
	a, ok := u.assets[c.Param("name")]
	if !ok {
		return route.NotFound(c)
	}
	headers(c.W.Header())
	a.ServeHTTP(c.W, c.R)
	return route.Answer{}, nil
}

// assetURL is the address of an asset.
func (u *UI) assetURL(name string) string {
	return Home + "assets/" + name + "?v=" + u.assets[name].tag
}

// compressFrom is the size from which a page is compressed, in bytes.
const compressFrom = 1024

// compressed is a page as the client takes it.
func (u *UI) compressed(c *route.Call, text []byte) []byte {
	if len(text) < compressFrom || !norman.AcceptsGzip(c.R) {
		return text
	}
	c.W.Header().Set("Content-Encoding", "gzip")
	z, ok := u.packers.Get().(*gzip.Writer)
	if !ok {
		z, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	}
	defer u.packers.Put(z)
	var out bytes.Buffer
	z.Reset(&out)
	_, _ = z.Write(text) // a bytes.Buffer takes everything
	_ = z.Close()
	return out.Bytes()
}

func (u *UI) functions() template.FuncMap {
	return template.FuncMap{
		"asset": u.assetURL, "home": func() string { return Home }, "tone": Tone, "mark": mark, "time": stamp, "span": span, "size": sizeOf,
		"cluster": ClusterURL, "machine": MachineURL, "operation": OperationURL, "fleet": FleetURL, "percent": percent, "join": strings.Join, "quoted": Quoted,
		"host": Host, "ended": ended, "short": short, "lines": lines, "side": side, "linked": docs.Linked, "explained": docs.Command, "documented": docs.Shown, "why": whyCommand, "area": area, "rare": rare,
		"row": remembered(func() *template.Template { return u.templates }),
	}
}

// mostRows is how many rows of lists are remembered, of about a KiB each.
const mostRows = 4096

// remembered draws rows of lists by their templates: a row that was drawn before of the same value is that one, as most rows of a
// list that is drawn again are as they were. Values are told apart by their JSON, so each field that a row shows is in that.
func remembered(templates func() *template.Template) func(name string, value any) (template.HTML, error) {
	rows := lru.New(mostRows)
	return func(name string, value any) (template.HTML, error) {
		text, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		key := sha256.Sum256(append(text, name...))
		if drawn, ok := rows.Get(key); ok {
			return drawn.(template.HTML), nil //nolint:forcetypeassert // nothing else is in there
		}
		var out strings.Builder
		err = templates().ExecuteTemplate(&out, name, value)
		drawn := template.HTML(out.String()) // #nosec G203 -- of a template, which has escaped it
		if err == nil {
			rows.Add(key, drawn)
		}
		return drawn, err
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
	return slices.DeleteFunc(slices.Clone(all), func(o Offer) bool { return !o.Advanced })
}

// whyCommand is the command that shows causes.
func whyCommand(name string) string { return "drover why " + Quoted(name) }
