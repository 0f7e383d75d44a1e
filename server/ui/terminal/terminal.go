// Package terminal is the page on which somebody types a line of kubectl and sees what it prints, with their own rights in
// the cluster. A form does it without scripts; with them the same form's answer is plain text that comes as it is printed.
// An address can hold a line, which is then in the field and nothing more: a link does nothing.
package terminal

import (
	"bytes"
	"errors"
	"io"
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
}

// New makes the pages. Requests to clusters go to handler, which serves /k8s/clusters/ID/… ; idOf is the management id of a
// cluster by "<namespace>/<name>".
func New(page *ui.UI, handler http.Handler, idOf func(key string) (id string, ok bool)) *Terminal {
	return &Terminal{ui: page, runner: &kubectl.Runner{Handler: handler}, idOf: idOf}
}

// view is what the page shows.
type view struct {
	// Action is where the form goes; Line what is in its field, Ran what was run.
	Action, Line, Ran string
	// Output is what it printed, Fault why it was not run.
	Output, Fault string
	MaxLine       int
}

// cluster is the cluster of a request, for who may use its terminal.
func (t *Terminal) cluster(who auth.Identity, key string) (id string, err error) {
	id, ok := t.idOf(key)
	if !ok || !auth.May(who, auth.Get, auth.OfCluster(id)) {
		return "", norman.Missing("cluster", key)
	}
	if !auth.May(who, auth.Terminal, auth.OfCluster(id)) {
		return "", norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "user %s may not use the API of cluster %s", who.Username, key)
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
	v.Action, v.MaxLine = home+"/terminal?CSRF="+form, kubectl.MaxLine
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
	done, err := t.runner.Begin(c.Who.UserID)
	if err != nil {
		return t.refuse(c, key, v, err)
	}
	defer done()
	defer c.Bind(auth.OfCluster(id))()
	line := kubectl.Line{Words: words, Cluster: id, Asked: c.R, Time: streamTime, Output: streamOutput}
	if streams(c.R) {
		out := ui.Plain(c, http.StatusOK)
		if err := t.runner.Run(c.Ctx(), line, out); err != nil {
			_, _ = io.WriteString(out, "drover: "+err.Error()+"\n") // the answer has begun
		}
		return route.Answer{}, nil
	}
	line.Time, line.Output = pageTime, pageOutput
	var out bytes.Buffer
	if err := t.runner.Run(c.Ctx(), line, &out); err != nil {
		return route.Answer{}, err
	}
	v.Line, v.Output = "", out.String()
	return route.Answer{}, t.ui.Show(c, http.StatusOK, shown(c.Param("name"), key, auth.FormToken(c.R), v))
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
