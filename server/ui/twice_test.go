package ui_test

import (
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/drover-project/drover/test/apibed"
)

// TestApplyTwice: a document is applied once, however often the button is pressed, and who presses again reads so.
func TestApplyTwice(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	const at = "clusters/fleet-default/harbour/change"
	_, form := formOf(b, string(b.Look(at, b.Admin).Raw))
	form.Set("text", strings.Replace(form.Get("text"), "    name: harbour\n", "    name: harbour\n    labels: {seen: \"yes\"}\n", 1))
	form.Set("act", "preview")
	_, form = formOf(b, string(b.Send(at, b.Admin, form).Raw))
	form.Set("act", "apply")
	var all sync.WaitGroup
	answers := make([]apibed.Result, 6)
	for i := range answers {
		all.Go(func() { answers[i] = b.Send(at, b.Admin, form) })
	}
	all.Wait()
	said, revision := 0, int64(0)
	for _, r := range append(answers, b.Send(at, b.Admin, form)) {
		to := r.Header.Get("Location")
		if r.Status != http.StatusSeeOther || !strings.HasPrefix(to, "/dashboard/clusters/fleet-default/harbour") {
			t.Errorf("%d to %s: %s", r.Status, to, r.Raw)
			continue
		}
		if strings.HasSuffix(to, "?done=applied-before") {
			if said++; !strings.Contains(string(b.Look(strings.TrimPrefix(to, "/dashboard/"), b.Admin).Raw), `<p id="notice" role="status">This was applied by the first press of the button.`) {
				t.Error("the page does not say that it was applied before")
			}
		}
		d, _ := b.State.Clusters.Get("fleet-default/harbour")
		if d.Value.Labels["seen"] != "yes" || revision != 0 && d.Revision != revision {
			t.Errorf("labels %v at revision %d after %d", d.Value.Labels, d.Revision, revision)
		}
		revision = d.Revision
	}
	if said != len(answers) {
		t.Errorf("%d of the others read that it was applied before", said)
	}
	// One that came to nothing may be looked at again by the same form.
	form.Set("key", strings.Repeat("a", 32))
	form.Set("text", "nonsense")
	for range 2 {
		if r := b.Send(at, b.Admin, form); r.Status != http.StatusUnprocessableEntity || !strings.Contains(string(r.Raw), "nonsense") {
			t.Errorf("refused: %d %s", r.Status, r.Raw)
		}
	}
	form.Del("key")
	if r := b.Send(at, b.Admin, form); r.Status != http.StatusUnprocessableEntity || !strings.Contains(string(r.Raw), "not one of this page") {
		t.Errorf("without a key: %d %s", r.Status, r.Raw)
	}
}

// TestLineTwice: a line of the terminal runs once, however often the button is pressed.
func TestLineTwice(t *testing.T) {
	b := terminalBed(t)
	_, form := formOf(b, string(b.Look(apibed.TerminalOfHarbour, b.Admin).Raw))
	form.Set("line", "annotate pod web-1 pressed=twice")
	for i, says := range []string{"web-1 annotated", "This line ran once, by the first press"} {
		r := b.Send(apibed.TerminalOfHarbour, b.Admin, form)
		if r.Status != http.StatusOK || !strings.Contains(string(r.Raw), says) || !strings.Contains(string(r.Raw), "web-1 annotated") || i == 0 && strings.Contains(string(r.Raw), "first press") {
			t.Errorf("press %d: %d %s", i+1, r.Status, r.Raw)
		}
	}
	if n := strings.Count(b.AuditedLines(t), `"method":"PATCH"`); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	form.Del("key")
	if r := b.Send(apibed.TerminalOfHarbour, b.Admin, form); r.Status != http.StatusUnprocessableEntity {
		t.Errorf("without a key: %d", r.Status)
	}
}

// TestDownloads: a file is there as often as a user asks for it, by the same form.
func TestDownloads(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	page := string(b.Look("do/kubeconfig/fleet-default/harbour", b.Admin).Raw)
	action, form := formOf(b, page)
	if !strings.Contains(page, "data-file") || strings.Contains(page, "data-once") || !strings.Contains(page, "downloaded by your browser") {
		t.Errorf("the page: %s", page)
	}
	for range 3 {
		r := b.Send(action, b.Admin, form)
		if r.Status != http.StatusOK || r.Header.Get("Content-Disposition") != "attachment; filename=harbour.yaml" || !strings.Contains(string(r.Raw), "apiVersion: v1") {
			t.Errorf("%d %v %s", r.Status, r.Header, r.Raw)
		}
	}
}

// TestNewUserIsThatOfTheCommand: the page makes the user that the command beside it makes.
func TestNewUserIsThatOfTheCommand(t *testing.T) {
	b := apibed.New(t)
	for i, c := range []struct {
		fields  url.Values
		command string
		roles   string
		must    bool
	}{
		{nil, "--must-change", "user", true},
		{url.Values{"role": {""}, "name": {"Ann Example"}, "description": {"a; b"}}, "--name 'Ann Example' --description 'a; b' --global-role '' --must-change", "", true},
		{url.Values{"role": {"clusters-create"}}, "--global-role clusters-create --must-change", "clusters-create", true},
	} {
		name := fmt.Sprint("ann", i)
		asked := url.Values{"username": {name}}
		if c.fields != nil {
			asked["mustchange"] = []string{"on"}
		}
		maps.Copy(asked, c.fields)
		page := string(b.Look("do/new-user?"+asked.Encode(), b.Admin).Raw)
		if c.fields == nil { // as it is without anything in the address
			page = strings.ReplaceAll(string(b.Look("do/new-user", b.Admin).Raw), "USERNAME", name)
		}
		if !strings.Contains(html.UnescapeString(page), "<code>drover users create "+name+" "+c.command+"</code>") {
			t.Errorf("the command for %v is another: %s", c.fields, page)
		}
		_, form := formOf(b, page)
		if c.fields == nil {
			asked.Set("role", "user")
			asked.Set("mustchange", "on")
		}
		maps.Copy(form, asked)
		form.Set("password", "a long password of somebody")
		if r := b.Send("do/new-user", b.Admin, form); r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/dashboard/users?done=new-user" {
			t.Errorf("%v: %d %s", c.fields, r.Status, r.Raw)
		}
		made := false
		for _, d := range b.State.Users.List() {
			if d.Value.Username != name {
				continue
			}
			made = true
			var roles []string
			for _, binding := range b.State.Bindings.List() {
				if strings.HasSuffix(binding.Value.User, d.Value.ID) {
					roles = append(roles, binding.Value.Role)
				}
			}
			if strings.Join(roles, " ") != c.roles || d.Value.MustChange != c.must || d.Value.DisplayName != c.fields.Get("name") {
				t.Errorf("%v: roles %q, must change %v, name %q", c.fields, roles, d.Value.MustChange, d.Value.DisplayName)
			}
		}
		if !made {
			t.Errorf("%v: no user was made", c.fields)
		}
	}
	_, form := formOf(b, string(b.Look("do/new-user", b.Admin).Raw))
	form["username"], form["password"], form["role"] = []string{"half"}, []string{"a long password of somebody"}, []string{"no-such-role"}
	if r := b.Send("do/new-user", b.Admin, form); r.Status < 400 || !strings.Contains(string(r.Raw), "The user is made. But the rest was refused:") {
		t.Errorf("a role that there is not: %d %s", r.Status, r.Raw)
	}
}
