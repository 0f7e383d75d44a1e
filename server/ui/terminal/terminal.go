// Package terminal is the page on which a user types a line of kubectl and sees what it prints, with their own rights in
// the cluster. A form does it without scripts; with them the same form's answer is plain text that comes as it is printed.
// An address can hold a line, which is then in the field and nothing more: a link does nothing.
package terminal

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/kubectl"
	"github.com/drover-project/drover/server/ui"
)

// What a line may take. Who waits for a whole page sees nothing of it before its end, so that it is less there.
const (
	streamTime   = 10 * time.Minute
	streamOutput = 4 << 20
	pageTime     = time.Minute
	pageOutput   = 1 << 20
)

// Terminal are the pages of all clusters.
type Terminal struct {
	ui     *ui.UI
	runner *kubectl.Runner
	idOf   func(key string) (id string, ok bool)
	once   ui.Forms[ran]
}

// Bounds of what is remembered of lines that ran, for buttons that are pressed twice.
const (
	mostForms  = 500
	keptOutput = 64 << 10
)

// ran is what a line came to: what it printed, or why it was not run.
type ran struct {
	output  string
	refused error
}

// later is what those get who send the form of a line again.
func later(r ran) ran {
	if len(r.output) > keptOutput {
		r.output = "(What was printed is too long to be shown twice.)"
	}
	return r
}

// New makes the pages. Requests to clusters go to handler, which serves /k8s/clusters/ID/… ; idOf is the management id of a
// cluster by "<namespace>/<name>".
func New(page *ui.UI, handler http.Handler, idOf func(key string) (id string, ok bool), logger *slog.Logger) *Terminal {
	return &Terminal{ui: page, runner: &kubectl.Runner{Handler: handler, Logger: logger}, idOf: idOf, once: ui.Forms[ran]{Now: time.Now, Most: mostForms, Later: later}}
}

// view is what the page shows.
type view struct {
	// Action is where the form goes, Form what proves that it is of this page; Line is what is in its field, Ran what was run.
	Action, Form, Line, Ran string
	// Output is what it printed, Fault why it was not run.
	Output, Fault string
	MaxLine       int
	// Key makes that a line runs once; Before says that it ran when the form came for the first time.
	Key    string
	Before bool
}

// cluster is the cluster of a request, for callers who may use its terminal, who are all that see it. For other callers there is none.
func (t *Terminal) cluster(who auth.Identity, key string) (id string, err error) {
	id, ok := t.idOf(key)
	if !ok || !auth.May(who, auth.Terminal, auth.OfCluster(id)) {
		return "", norman.Missing("cluster", key)
	}
	return id, nil
}

// Page is the page before anything was typed.
func (t *Terminal) Page(r ui.Request) (ui.View, error) {
	key := r.Param("namespace") + "/" + r.Param("name")
	if _, err := t.cluster(r.Who, key); err != nil {
		return ui.View{}, err
	}
	line := r.Query.Get("line")
	return shown(r.Param("name"), key, r.Form, view{Line: line[:min(len(line), kubectl.MaxLine)]}), nil
}

// shown is the page of a cluster's terminal.
func shown(name, key, form string, v view) ui.View {
	home := (&url.URL{Path: ui.Home + "clusters/" + key}).String()
	v.Form, v.Key = form, ui.NewFormKey()
	v.Action, v.MaxLine = home+"/terminal", kubectl.MaxLine
	return ui.View{
		Title: "Terminal of " + name, Template: "terminal", Data: v, Section: "clusters", Script: "terminal.js",
		Trail: []ui.Link{{Title: "Clusters", URL: ui.Home + "clusters"}, {Title: name, URL: home}}, Command: "drover clusters kubeconfig " + ui.Quoted(name),
	}
}

// Run is the handler of POST …/terminal.
func (t *Terminal) Run(c *route.Call) (route.Answer, error) {
	key := c.Param("namespace") + "/" + c.Param("name")
	id, err := t.cluster(c.Who, key)
	if err != nil {
		return route.Answer{}, err
	}
	if c.Who.MustChangePassword {
		return route.Answer{}, norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "choose a password of your own first")
	}
	form, err := ui.ReadForm(c, maxForm)
	if err != nil {
		return route.Answer{}, err
	}
	v := view{Ran: form.Get("line"), Line: form.Get("line")}
	words, err := kubectl.Words(v.Ran)
	if err != nil {
		return t.refuse(c, key, v, err)
	}
	c.Concern(key + " " + kubectl.Name(words)) // what follows could have a secret in it
	if streams(c.R) {
		return t.stream(c, key, id, v, words)
	}
	r, first, err := t.once.Do(c, form.Get("key"), func() (ran, error) { return t.whole(c, id, words) })
	if err != nil {
		return route.Answer{}, err
	}
	if r.refused != nil {
		return t.refuse(c, key, v, r.refused)
	}
	v.Line, v.Output, v.Before = "", r.output, !first
	return route.Answer{}, t.ui.Show(c, http.StatusOK, shown(c.Param("name"), key, auth.FormToken(c.R), v))
}

// stream runs a line and sends what it prints as it comes.
func (t *Terminal) stream(c *route.Call, key, id string, v view, words []string) (route.Answer, error) {
	done, err := t.runner.Begin(c.Who.UserID)
	if err != nil {
		return t.refuse(c, key, v, err)
	}
	defer done()
	defer c.Bind(auth.OfCluster(id))()
	out := ui.Plain(c, http.StatusOK)
	if err := t.runner.Run(c.Ctx(), kubectl.Line{Words: words, Cluster: id, Asked: c.R, Time: streamTime, Output: streamOutput}, out); err != nil {
		_, _ = io.WriteString(out, "drover: "+err.Error()+"\n") // the answer has begun
	}
	return route.Answer{}, nil
}

// whole runs a line for who waits for all that it prints.
func (t *Terminal) whole(c *route.Call, id string, words []string) (ran, error) {
	done, err := t.runner.Begin(c.Who.UserID)
	if err != nil {
		return ran{refused: err}, nil
	}
	defer done()
	defer c.Bind(auth.OfCluster(id))()
	var out bytes.Buffer
	err = t.runner.Run(c.Ctx(), kubectl.Line{Words: words, Cluster: id, Asked: c.R, Time: pageTime, Output: pageOutput}, &out)
	return ran{output: out.String()}, err
}

// maxForm bounds the form, in bytes: each character of a line may take three.
const maxForm = 16 << 10

// streams says that a client, our script, wants the output as it comes.
func streams(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/plain") }

// refuse says why a line is not run; it stays in its field.
func (t *Terminal) refuse(c *route.Call, key string, v view, err error) (route.Answer, error) {
	status := http.StatusUnprocessableEntity
	if busy, ok := errors.AsType[*kubectl.BusyError](err); ok {
		if status = http.StatusServiceUnavailable; busy.OfUser {
			status = http.StatusTooManyRequests
		}
	} else if _, ok := errors.AsType[*kubectl.RefusedError](err); !ok {
		return route.Answer{}, err
	}
	if streams(c.R) {
		_, _ = io.WriteString(ui.Plain(c, status), "drover: "+err.Error()+"\n") // the client has gone when this fails
		return route.Answer{}, nil
	}
	v.Fault = err.Error()
	v.Line = v.Line[:min(len(v.Line), kubectl.MaxLine)]
	return route.Answer{}, t.ui.Show(c, status, shown(c.Param("name"), key, auth.FormToken(c.R), v))
}
