package api

import (
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// TestApplyTwice: a document is applied once, however often the button is pressed, and who presses again reads so.
func TestApplyTwice(t *testing.T) {
	b := newBench(t)
	harbour(b)
	const at = "clusters/fleet-default/harbour/change"
	_, form := b.formOf(string(b.look(at, b.admin).raw))
	form.Set("text", strings.Replace(form.Get("text"), "    name: harbour\n", "    name: harbour\n    labels: {seen: \"yes\"}\n", 1))
	form.Set("act", "preview")
	_, form = b.formOf(string(b.send(at, b.admin, form).raw))
	form.Set("act", "apply")
	var all sync.WaitGroup
	answers := make([]result, 6)
	for i := range answers {
		all.Go(func() { answers[i] = b.send(at, b.admin, form) })
	}
	all.Wait()
	said, revision := 0, int64(0)
	for _, r := range append(answers, b.send(at, b.admin, form)) {
		to := r.header.Get("Location")
		if r.status != http.StatusSeeOther || !strings.HasPrefix(to, "/dashboard/clusters/fleet-default/harbour") {
			t.Errorf("%d to %s: %s", r.status, to, r.raw)
			continue
		}
		if strings.HasSuffix(to, "?done=applied-before") {
			if said++; !strings.Contains(string(b.look(strings.TrimPrefix(to, "/dashboard/"), b.admin).raw), `<p id="notice" role="status">This was applied by the first press of the button.`) {
				t.Error("the page does not say that it was applied before")
			}
		}
		d, _ := b.st.Clusters.Get("fleet-default/harbour")
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
		if r := b.send(at, b.admin, form); r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.raw), "nonsense") {
			t.Errorf("refused: %d %s", r.status, r.raw)
		}
	}
	form.Del("key")
	if r := b.send(at, b.admin, form); r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.raw), "not one of this page") {
		t.Errorf("without a key: %d %s", r.status, r.raw)
	}
}

// TestLineTwice: a line of the terminal runs once, however often the button is pressed.
func TestLineTwice(t *testing.T) {
	b := terminalBench(t)
	_, form := b.formOf(string(b.look(terminalOfHarbour, b.admin).raw))
	form.Set("line", "annotate pod web-1 pressed=twice")
	for i, says := range []string{"web-1 annotated", "This line ran once, by the first press"} {
		r := b.send(terminalOfHarbour, b.admin, form)
		if r.status != http.StatusOK || !strings.Contains(string(r.raw), says) || !strings.Contains(string(r.raw), "web-1 annotated") || i == 0 && strings.Contains(string(r.raw), "first press") {
			t.Errorf("press %d: %d %s", i+1, r.status, r.raw)
		}
	}
	if n := strings.Count(b.auditedLines(t), `"method":"PATCH"`); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	form.Del("key")
	if r := b.send(terminalOfHarbour, b.admin, form); r.status != http.StatusUnprocessableEntity {
		t.Errorf("without a key: %d", r.status)
	}
}

// TestDownloads: a file is there as often as a user asks for it, by the same form.
func TestDownloads(t *testing.T) {
	b := newBench(t)
	harbour(b)
	page := string(b.look("do/kubeconfig/fleet-default/harbour", b.admin).raw)
	action, form := b.formOf(page)
	if !strings.Contains(page, "data-file") || strings.Contains(page, "data-once") || !strings.Contains(page, "downloaded by your browser") {
		t.Errorf("the page: %s", page)
	}
	for range 3 {
		r := b.send(action, b.admin, form)
		if r.status != http.StatusOK || r.header.Get("Content-Disposition") != "attachment; filename=harbour.yaml" || !strings.Contains(string(r.raw), "apiVersion: v1") {
			t.Errorf("%d %v %s", r.status, r.header, r.raw)
		}
	}
}

// TestNewUserIsThatOfTheCommand: the page makes the user that the command beside it makes.
func TestNewUserIsThatOfTheCommand(t *testing.T) {
	b := newBench(t)
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
		page := string(b.look("do/new-user?"+asked.Encode(), b.admin).raw)
		if c.fields == nil { // as it is without anything in the address
			page = strings.ReplaceAll(string(b.look("do/new-user", b.admin).raw), "USERNAME", name)
		}
		if !strings.Contains(html.UnescapeString(page), "<code>drover users create "+name+" "+c.command+"</code>") {
			t.Errorf("the command for %v is another: %s", c.fields, page)
		}
		_, form := b.formOf(page)
		if c.fields == nil {
			asked.Set("role", "user")
			asked.Set("mustchange", "on")
		}
		maps.Copy(form, asked)
		form.Set("password", "a long password of somebody")
		if r := b.send("do/new-user", b.admin, form); r.status != http.StatusSeeOther || r.header.Get("Location") != "/dashboard/users?done=new-user" {
			t.Errorf("%v: %d %s", c.fields, r.status, r.raw)
		}
		made := false
		for _, d := range b.st.Users.List() {
			if d.Value.Username != name {
				continue
			}
			made = true
			var roles []string
			for _, binding := range b.st.Bindings.List() {
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
	_, form := b.formOf(string(b.look("do/new-user", b.admin).raw))
	form["username"], form["password"], form["role"] = []string{"half"}, []string{"a long password of somebody"}, []string{"no-such-role"}
	if r := b.send("do/new-user", b.admin, form); r.status < 400 || !strings.Contains(string(r.raw), "The user is made. But the rest was refused:") {
		t.Errorf("a role that there is not: %d %s", r.status, r.raw)
	}
}
