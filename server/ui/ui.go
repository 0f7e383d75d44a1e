// Package ui is the web page: rendered by the server, from templates and assets that are in the binary, without a
// build chain. Each page is one function from the caller and the request to a view, and one template. The same address
// gives the page, and to a client that accepts text/event-stream its <main> again and again, whenever something
// changed that it shows.
//
// The package knows no store: what pages show comes in by the functions of Facts, which answer for the caller and
// leave out what they may not see.
package ui

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"mime"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/ui/live"
)

// Home is where the page is: the address that the original's has.
const Home = "/dashboard/"

// Options of the page.
type Options struct {
	Facts Facts
	// Changes tells open pages of what changed, by the topics that their views name.
	Changes *live.Hub
	Auth    *auth.Auth
	// Offers are what a user may do to a thing that a page shows: a value of Facts. Nil offers nothing.
	Offers func(who auth.Identity, thing any) []Offer
	// Notice is what a page says to a user who comes to it and who has done something; empty for nothing.
	Notice func(done string) string
	Now    func() time.Time
	// Logger hears of pages that cannot be drawn; nil is silence.
	Logger *slog.Logger
}

// Offer is a link to something that a user may do.
type Offer struct {
	Title, URL string
	// Dangerous is what cannot be taken back, Advanced what is not offered at the first look.
	Dangerous, Advanced bool
	// Pauses is what holds up or lets go on what is under way on a cluster.
	Pauses bool
}

// UI serves the pages.
type UI struct {
	Options
	templates *template.Template
	assets    map[string]asset
	// build changes with templates and assets; a page of another build loads itself anew.
	build string
	// drawing bounds how many pages are made at once, so that many open ones leave room for other work.
	drawing chan struct{}
	board   *live.Board // of those that stay open
	packers sync.Pool   // of *gzip.Writer: each holds some 800 KiB
}

//go:embed templates
var files embed.FS

// New reads templates and assets. The error names the template that cannot be read.
func New(o Options) (*UI, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	processors := runtime.GOMAXPROCS(0)
	u := &UI{Options: o, drawing: make(chan struct{}, max(1, processors/2))}
	u.board = live.NewBoard(o.Changes, processors, func(err error) { o.Logger.Error("a page that is open cannot be drawn", "error", err) })
	var err error
	if u.templates, err = template.New("").Funcs(u.functions()).ParseFS(files, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("read the templates of the page: %w", err)
	}
	if u.assets, err = readAssets(); err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, all := range []fs.ReadFileFS{files, assetFiles} {
		err = errors.Join(err, fs.WalkDir(all, ".", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := all.ReadFile(path)
			sum.Write(text)
			return err
		}))
	}
	u.build = hex.EncodeToString(sum.Sum(nil)[:8])
	return u, err
}

// View is what a page shows.
type View struct {
	// Title is its heading, and Template the one that makes its body of Data.
	Title, Template string
	Data            any
	// Trail are the pages above it.
	Trail []Link
	// Command is the drover command that shows the same; empty where there is none.
	Command string
	// Section is the entry of the navigation that it belongs to.
	Section string
	// Notice is what the user has done on the page before.
	Notice string
	// Script is an asset of its own, beside that of all pages; empty for none.
	Script string
	// Topics are those whose changes it shows. Without any it does not change by itself.
	Topics []string
}

// Link leads to a page.
type Link struct{ Title, URL string }

// Request is what a user wants to see.
type Request struct {
	Ctx context.Context //nolint:containedctx // of the request
	Who auth.Identity
	// Param is a part of the path, Query what follows it.
	Param func(name string) string
	Query Query
	// Ask has the API answer a request for them, AskWithin in a time.
	Ask       func(route.Asked) (route.Reply, error)
	AskWithin func(time.Duration, route.Asked) (route.Reply, error)
	// Form is what forms repeat in their first field, CSRF.
	Form string
}

// Page makes the view of a request. Its errors are answered as those of handlers are, see route.Handler: on a page of their own.
type Page func(Request) (View, error)

// frame is what the frame of a page shows.
type frame struct {
	View
	Who    auth.Identity
	Nav    []navEntry
	Main   template.HTML // made by a template
	Seen   string        // names Main
	Build  string
	Look   string // dark, light, or empty for that of the system
	Form   string // what forms repeat
	Leaves bool   // it has a stream
	Now    time.Time
}

type navEntry struct {
	Link
	Here bool
}

// Serve is the handler of a page.
func (u *UI) Serve(page Page) route.Handler { return u.serve(page, false) }

// Common is the handler of a page that shows the same to all who may do the same: its Request names no user, and asks
// nothing of the API. While it is open it is drawn once for all of them.
func (u *UI) Common(page Page) route.Handler { return u.serve(page, true) }

func (u *UI) serve(page Page, common bool) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		if c.Who.MustChangePassword {
			return u.LeadTo(c, Home+"password"), nil
		}
		if streams(c.R) {
			return u.follow(c, page, common)
		}
		view, err := page(requestOf(c, common))
		if err != nil {
			return route.Answer{}, err
		}
		if u.Notice != nil {
			view.Notice = u.Notice(c.Query().Get("done"))
		}
		return route.Answer{}, u.Show(c, http.StatusOK, view)
	}
}

// Lead is the handler of an address that leads to another.
func (u *UI) Lead(to string) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		if given := c.Query().Get("setup"); given != "" { // as the log of a first start has it
			return u.LeadTo(c, Home+"login"), nil
		}
		return u.LeadTo(c, to), nil
	}
}

// Root is the handler of "/", which leads browsers to the page and is for all others what it was.
func (u *UI) Root(others route.Handler) route.Handler {
	return func(c *route.Call) (route.Answer, error) {
		c.W.Header().Add("Vary", "Accept")
		if strings.Contains(c.R.Header.Get("Accept"), "text/html") && c.Query().Get("_format") == "" {
			return u.LeadTo(c, Home), nil
		}
		return others(c)
	}
}

// LeadTo answers with another address. A stream is told that it is over, as it cannot follow.
func (u *UI) LeadTo(c *route.Call, to string) route.Answer {
	headers(c.W.Header())
	if streams(c.R) {
		_ = begin(c).tell("over", to)
		return route.Answer{}
	}
	c.W.Header().Set("Location", to)
	c.W.WriteHeader(http.StatusSeeOther)
	return route.Answer{}
}

// drawnBody is body, in a turn of its own.
func (u *UI) drawnBody(ctx context.Context, view View) ([]byte, error) {
	select {
	case u.drawing <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-u.drawing }()
	return u.body(view)
}

// body makes the inside of <main>.
func (u *UI) body(view View) ([]byte, error) {
	var out bytes.Buffer
	if err := u.templates.ExecuteTemplate(&out, "body", view.head()); err != nil {
		return nil, fmt.Errorf("show %s: %w", view.Title, err)
	}
	if err := u.templates.ExecuteTemplate(&out, view.Template, view.Data); err != nil {
		return nil, fmt.Errorf("show %s: %w", view.Title, err)
	}
	return out.Bytes(), nil
}

// head is the view without its data.
func (v View) head() View { v.Data = nil; return v }

// seenOf names what a client has seen.
func seenOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:12])
}

// Show answers with a whole page. The error is that of a template.
func (u *UI) Show(c *route.Call, status int, view View) error {
	body, err := u.drawnBody(c.Ctx(), view)
	if err != nil {
		return err
	}
	f := frame{
		View: view.head(), Who: c.Who, Nav: navOf(c.Who, view.Section), Main: template.HTML(body), // #nosec G203 -- it is what a template of ours made
		Seen: seenOf(body), Build: u.build, Form: auth.FormToken(c.R), Leaves: len(view.Topics) > 0, Now: u.Now().UTC(),
	}
	if look, err := c.R.Cookie("drover-look"); err == nil && slices.Contains([]string{"dark", "light"}, look.Value) {
		f.Look = look.Value
	}
	var out bytes.Buffer
	if err := u.templates.ExecuteTemplate(&out, "frame", f); err != nil {
		return fmt.Errorf("show %s: %w", view.Title, err)
	}
	h := c.W.Header()
	headers(h)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Add("Vary", "Accept, Accept-Encoding, Cookie")
	text := u.compressed(c, out.Bytes())
	c.W.WriteHeader(status)
	_, _ = c.W.Write(text) // the client has gone when this fails
	return nil
}

// File answers with a file, which browsers keep under a name. It returns no error.
func (u *UI) File(c *route.Call, name, text string) error {
	h := c.W.Header()
	headers(h)
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	c.W.WriteHeader(http.StatusOK)
	_, _ = c.W.Write([]byte(text)) // the client has gone when this fails
	return nil
}

// offers are what a user may do to a thing.
func (u *UI) offers(who auth.Identity, thing any) []Offer {
	if u.Offers == nil {
		return nil
	}
	return u.Offers(who, thing)
}

// Refuse shows what is wrong, as a page; who is not logged in is led to where they can be.
func (u *UI) Refuse(c *route.Call, e *norman.Error) {
	if e.Status == http.StatusUnauthorized {
		u.LeadTo(c, loginURL(c.R))
		return
	}
	if streams(c.R) {
		_ = begin(c).tell("away", e.Message)
		return
	}
	if e.RetryAfter > 0 {
		c.W.Header().Set("Retry-After", fmt.Sprint(int(e.RetryAfter.Seconds()+0.999)))
	}
	view := View{Title: titleOf(e.Status), Template: "refusal", Data: e.Message}
	if u.Show(c, e.Status, view) != nil {
		http.Error(c.W, e.Message, e.Status)
	}
}

func titleOf(status int) string {
	switch status {
	case http.StatusNotFound:
		return "There is nothing here"
	case http.StatusForbidden:
		return "You may not see this"
	case http.StatusServiceUnavailable:
		return "The server cannot answer now"
	}
	return "This did not work"
}

// policy is what a page may load: what this server has, and nothing that is written into the page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// headers are those of all answers.
func headers(h http.Header) {
	norman.Uncached(h)
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// navOf are the sections that a user may see.
func navOf(who auth.Identity, here string) []navEntry {
	if who.UserID == "" || who.MustChangePassword {
		return nil
	}
	var nav []navEntry
	add := func(title, path string, may bool) {
		if may {
			nav = append(nav, navEntry{Link{title, Home + path}, path == here})
		}
	}
	add("Clusters", "clusters", true)
	add("Machines", "machines", true)
	add("Fleets", "fleets", auth.Somewhere(who, auth.ListAll, auth.Fleet))
	add("Versions", "versions", true)
	add("Tokens", "tokens", true)
	add("Users", "users", true)
	add("Roles", "roles", true)
	add("Bindings", "bindings", true)
	add("Settings", "settings", true)
	add("Servers", "servers", auth.Somewhere(who, auth.ListAll, auth.Tunnel))
	add("Audit log", "audit", auth.Somewhere(who, auth.ListAll, auth.Audit))
	add("Docs", "docs", true)
	return nav
}
