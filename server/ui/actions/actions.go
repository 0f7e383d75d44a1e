// Package actions is what people do on the page: each action is a value that says what it is called, what it asks the API
// for, and which drover command does the same. An action has a page of its own with a form; it is done by a POST of that
// form, once, however often the button is pressed. There is no second way to anything: what an action does is a request of
// the API (route.Call.Ask), and so are its checks, its sentences and its place in the audit log.
package actions

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/apitypes/verbs"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/ui"
)

// Action is something that people do.
type Action struct {
	// Name is what addresses call it, Title what its button says.
	Name, Title string
	// About says in a sentence or two what follows.
	About string
	// Done is what the next page says; empty where the page says it itself.
	Done string
	// Dangerous is what cannot be taken back: the name of the thing is typed before.
	Dangerous bool
	// Pauses is what holds up or lets go on what is under way.
	Pauses bool
	// Advanced actions are not offered at the first look.
	Advanced bool
	// Of is the kind of the thing that it is done to; empty for what makes something new.
	Of auth.Kind
	// Makes is the kind of what it makes; empty for what is done to something.
	Makes auth.Kind
	// May says whether a user may do it, and Fits whether it makes sense now; nil is always.
	May  func(who auth.Identity, s Subject) bool
	Fits func(Subject) bool
	// Fields are what the form asks for; nil is none.
	Fields func(Subject, Known) []Field
	// Preview actions are shown first: the same request with dryRun=true.
	Preview bool
	// Wrong says what is wrong with what is given, before it is asked for; nil is nothing.
	Wrong func(Subject, Given) error
	Ask   func(Subject, Given) route.Asked
	// Also are further requests, once the first one is done; nil is none.
	Also func(Given, route.Reply) []route.Asked
	// Command is the drover command that does the same.
	Command func(Subject, Given) string
	// Next is where it leads once it is done; nil is the page of the subject.
	Next func(Subject, route.Reply) string
	// File says that the answer is a file, which is downloaded, as often as a user likes.
	File bool
	// Shows is what is shown of the answer, for the only time; nil leads on.
	Shows func(Subject, route.Reply) (Shown, error)
}

// Pages serves actions.
type Pages struct {
	UI      *ui.UI
	Facts   ui.Facts
	Now     func() time.Time
	actions []Action
	once    ui.Forms[outcome]
}

// mostForms is how many forms are remembered.
const mostForms = 10_000

// New makes the pages of all actions.
func New(u *ui.UI, facts ui.Facts, now func() time.Time, all []verbs.Verb) *Pages {
	p := &Pages{UI: u, Facts: facts, Now: now, actions: ofClusters(), once: ui.Forms[outcome]{Now: now, Most: mostForms, Later: later}}
	for _, v := range all {
		if v.Page.Title != "" {
			p.actions = append(p.actions, of(v))
		}
	}
	for _, some := range [][]Action{{rehearsals(), removeCluster()}, ofMachines(), ofPeople(), ofRoles(), ofFleets()} {
		p.actions = append(p.actions, some...)
	}
	return p
}

// Home is where actions are.
const Home = ui.Home + "do/"

// urlOf is the page of an action.
func (d Action) urlOf(s Subject) string {
	at := Home + d.Name
	for part := range strings.SplitSeq(s.Key, "/") {
		if part != "" {
			at += "/" + url.PathEscape(part)
		}
	}
	return at
}

// offered says whether a user is shown an action.
func (d Action) offered(who auth.Identity, s Subject) bool {
	return d.Of == s.Kind && (d.May == nil || d.May(who, s)) && (d.Fits == nil || d.Fits(s))
}

// Offers are the actions that a user may do to a thing that a page shows: a value of ui.Facts, or the kind of what could be
// made.
func (p *Pages) Offers(who auth.Identity, thing any) []ui.Offer {
	s, made := subjectOf(thing), auth.Kind("")
	if kind, ok := thing.(auth.Kind); ok {
		made = kind
	}
	var offers []ui.Offer
	for _, d := range p.actions {
		if d.offered(who, s) && d.Makes == made {
			offers = append(offers, ui.Offer{Title: d.Title, URL: d.urlOf(s), Dangerous: d.Dangerous, Advanced: d.Advanced, Pauses: d.Pauses})
		}
	}
	return offers
}

// Notice is what the next page says of an action.
func (p *Pages) Notice(name string) string {
	if i := slices.IndexFunc(p.actions, func(d Action) bool { return d.Name == name }); i >= 0 {
		return p.actions[i].Done
	}
	return ""
}

// find is the action and the thing of an address.
func (p *Pages) find(c *route.Call) (Action, Subject, error) {
	name := c.Param("action")
	i := slices.IndexFunc(p.actions, func(d Action) bool { return d.Name == name })
	if i < 0 {
		return Action{}, Subject{}, norman.Missing("action", name)
	}
	d := p.actions[i]
	s, err := p.subject(c.Who, d.Of, c.Param("key"))
	if err != nil {
		return d, s, err
	}
	if d.May != nil && !d.May(c.Who, s) {
		return d, s, norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "user %s may not do this: %s", c.Who.Username, strings.ToLower(d.Title))
	}
	return d, s, nil
}

// formView is the page of an action.
type formView struct {
	Action Action
	On     Subject
	Fields []Field
	// Here is the page itself, Form what proves that its form is of this page.
	Here, Form string
	// Key makes that it is done once.
	Key   string
	Fault string
	// Trial is what would be done, of an action that is tried first; nil before all fields are given.
	Trial *Trial
	// Sure is what has to be typed; empty for nothing.
	Sure string
	Over string // why it makes no sense now
}

// form is the page of an action with what was given.
func (p *Pages) form(c *route.Call, d Action, s Subject, given Given, fault string) (ui.View, error) {
	v := formView{Action: d, On: s, Here: d.urlOf(s), Form: auth.FormToken(c.R), Key: ui.NewFormKey(), Fault: fault}
	if d.Fields != nil {
		v.Fields = d.Fields(s, Known{Facts: p.Facts, Who: c.Who})
	}
	whole, some := true, len(given) > 0
	for i := range v.Fields {
		f := &v.Fields[i]
		if _, there := given[f.Name]; (there || f.Kind == "tick" && some) && f.Kind != "password" {
			f.Value = Given(given).Text(f.Name)
		}
		given[f.Name] = []string{f.Value}
		whole = whole && (f.Value != "" || !f.Required)
	}
	if d.Dangerous {
		v.Sure = s.Name
	}
	if d.Fits != nil && !d.Fits(s) {
		v.Over = "This makes no sense now: it has been done already, or things have changed."
	} else if d.Preview && whole {
		trial, err := p.try(c, d, s, given)
		if err != nil {
			return ui.View{}, err
		}
		if v.Trial = &trial; trial.Fault == fault {
			v.Fault = ""
		}
	}
	trail := []ui.Link{}
	if s.URL != "" {
		trail = append(trail, ui.Link{Title: s.Name, URL: s.URL})
	}
	view := ui.View{Title: d.Title, Template: "action", Data: v, Trail: trail, Section: s.Section}
	if d.Command != nil {
		view.Command = d.Command(s, given)
	}
	return view, nil
}

// Form is the handler of GET /dashboard/do/{action}/{key...}. Fields can be given in the address, which does nothing.
func (p *Pages) Form(c *route.Call) (route.Answer, error) {
	d, s, err := p.find(c)
	if err != nil {
		return route.Answer{}, err
	}
	view, err := p.form(c, d, s, Given(c.Query()), "")
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{}, p.UI.Show(c, http.StatusOK, view)
}

// maxForm bounds a form, in bytes.
const maxForm = 256 << 10

// Do is the handler of POST /dashboard/do/{action}/{key...}.
func (p *Pages) Do(c *route.Call) (route.Answer, error) {
	d, s, err := p.find(c)
	if err != nil {
		return route.Answer{}, err
	}
	form, err := ui.ReadForm(c, maxForm)
	if err != nil {
		return route.Answer{}, err
	}
	given := Given(form)
	if d.Dangerous && given.Text("sure") != s.Name {
		return p.again(c, d, s, given, http.StatusUnprocessableEntity, "Type "+s.Name+" to do this.")
	}
	if d.Wrong != nil {
		if err := d.Wrong(s, given); err != nil {
			return p.again(c, d, s, given, http.StatusUnprocessableEntity, ui.Sentence(err.Error()))
		}
	}
	act := func() (outcome, error) { return p.done(c, d, s, given) }
	var o outcome
	if d.File { // which can be had again
		o, err = act()
	} else {
		o, _, err = p.once.Do(c, given.Text("key"), act)
	}
	if err != nil {
		return route.Answer{}, err
	}
	return p.answer(c, d, s, given, o)
}

// outcome is what an action came to.
type outcome struct {
	to     string // where it leads
	shown  *Shown // for the only time
	status int    // of what the API has against it
	fault  string
}

// later is what is remembered of an outcome: what is shown once is not kept.
func later(o outcome) outcome {
	if o.shown == nil {
		return o
	}
	return outcome{status: http.StatusConflict, fault: "This was done already, and what came of it is shown only once."}
}

// done asks the API.
func (p *Pages) done(c *route.Call, d Action, s Subject, given Given) (outcome, error) {
	reply, err := c.Ask(d.Ask(s, given))
	if err != nil {
		return outcome{}, err
	}
	if e := reply.Refused(); e != nil {
		return outcome{status: e.Status, fault: p.said(c, d, s, e)}, nil
	}
	if err := p.further(c, d, given, reply); err != nil {
		return outcome{}, err
	}
	if d.Shows != nil {
		shown, err := d.Shows(s, reply)
		return outcome{shown: &shown}, err
	}
	to := s.URL
	if d.Next != nil {
		to = d.Next(s, reply)
	}
	if to == "" {
		to = ui.Home + s.Section
	}
	if d.Done != "" {
		to += "?done=" + url.QueryEscape(d.Name)
	}
	return outcome{to: to}, nil
}

// said is a refusal of the API in the words of the form: the API's name of a field is that of its label, where the form has one.
func (p *Pages) said(c *route.Call, d Action, s Subject, e *norman.Error) string {
	if d.Fields != nil && e.Field != "" {
		longest := ""
		for _, f := range d.Fields(s, Known{Facts: p.Facts, Who: c.Who}) {
			if len(f.Name) > len(longest) && strings.Contains(strings.ToLower(e.Field), strings.ToLower(f.Name)) {
				longest = f.Name
				e = &norman.Error{Status: e.Status, Code: e.Code, Field: f.Label, Message: e.Message}
			}
		}
	}
	return ui.Sentence(strings.TrimSuffix(e.Error(), "."))
}

// further asks the API for the rest of an action, and says what of it was refused.
func (p *Pages) further(c *route.Call, d Action, given Given, reply route.Reply) error {
	if d.Also == nil {
		return nil
	}
	for _, asked := range d.Also(given, reply) {
		reply, err := c.Ask(asked)
		if err != nil {
			return err
		}
		if e := reply.Refused(); e != nil {
			return norman.Errorf(e.Status, e.Code, "%s But the rest was refused: %s", d.Done, e.Error())
		}
	}
	return nil
}

func (p *Pages) answer(c *route.Call, d Action, s Subject, given Given, o outcome) (route.Answer, error) {
	switch {
	case o.fault != "":
		return p.again(c, d, s, given, o.status, o.fault)
	case o.shown == nil:
		return p.UI.LeadTo(c, o.to), nil
	case o.shown.File != "":
		return route.Answer{}, p.UI.File(c, o.shown.File, o.shown.Text)
	}
	view := ui.View{Title: d.Title, Template: "once", Data: o.shown, Section: s.Section}
	if s.URL != "" {
		view.Trail = []ui.Link{{Title: s.Name, URL: s.URL}}
	}
	return route.Answer{}, p.UI.Show(c, http.StatusOK, view)
}

// again shows the form with what was given, and what is wrong.
func (p *Pages) again(c *route.Call, d Action, s Subject, given Given, status int, fault string) (route.Answer, error) {
	view, err := p.form(c, d, s, given, fault)
	if err != nil {
		return route.Answer{}, err
	}
	return route.Answer{}, p.UI.Show(c, status, view)
}

// send is a request with a JSON body.
func send(method, target string, body any) route.Asked {
	text, _ := json.Marshal(body) // of strings, numbers, ticks and lists of them, which cannot fail
	return route.Asked{Method: method, Target: target, Body: text}
}

// post is a request without a body.
func post(target string) route.Asked { return route.Asked{Method: http.MethodPost, Target: target} }
