// Actions of verbs: form, request and command of each are made of its value (apitypes/verbs).

package actions

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/drover-project/drover/apitypes/verbs"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/ui"
)

// object is the subject as verbs know it.
func (s Subject) object() verbs.Object {
	o := verbs.Object{Machine: s.Machine, Operation: s.Operation, Fleet: s.Fleet}
	if s.Cluster != nil {
		o.Cluster = &s.Cluster.Cluster
	}
	return o
}

// at is where drover's own API has it.
func (s Subject) at() string { return s.object().Path() }

// of is the action of a verb.
func of(v verbs.Verb) Action {
	d := Action{
		Name: v.Name, Title: v.Page.Title, About: v.Page.About, Done: v.Page.Done, Of: auth.Kind(v.Of),
		Dangerous: v.Confirm != nil, Pauses: v.Page.Pauses, Advanced: v.Page.Advanced, Preview: v.Begins || v.Page.Preview,
		May:     func(who auth.Identity, s Subject) bool { return s.may(who, auth.Verb(v.Right)) },
		Ask:     func(s Subject, g Given) route.Asked { return ask(v, s, g) },
		Fields:  func(s Subject, k Known) []Field { return fields(v, s, k) },
		Command: func(s Subject, g Given) string { return line(v, s, g) },
	}
	if v.Fits != nil {
		d.Fits = func(s Subject) bool { return v.Fits(s.object()) }
	}
	if v.Make != nil {
		d.Wrong = func(s Subject, g Given) error {
			_, err := v.Sent(given(v, s, g))
			return err
		}
	}
	switch {
	case d.Preview:
		d.Next = begun
	case v.Page.Leaves:
		d.Next = func(Subject, route.Reply) string { return ui.Home + v.Of.Collection() }
	}
	return d
}

// shown are the inputs of a verb that the page asks for.
func shown(v verbs.Verb, s Subject) []verbs.Input {
	var all []verbs.Input
	for _, in := range v.Inputs {
		if in.Label != "" && (in.Fits == nil || in.Fits(s.object())) {
			all = append(all, in)
		}
	}
	return all
}

func fields(v verbs.Verb, s Subject, k Known) []Field {
	var all []Field
	for _, in := range shown(v, s) {
		f := Field{Name: in.Name, Label: in.Label, Hint: in.Hint, Kind: "text", Required: in.Required}
		switch {
		case in.Kind == verbs.Tick:
			f.Kind = "tick"
		case in.Kind == verbs.Snapshot:
			f.Kind, f.Choices = "choice", append([]Choice{{"", "choose one"}}, snapshots(s)...)
		case in.Kind == verbs.FleetName:
			f.Known = fleets(k)
		case in.Kind == verbs.Version:
			if all := nextVersions(s, k); len(all) > 0 { // none of a version that the data do not know
				f.Kind, f.Choices = "choice", append([]Choice{{"", "choose one"}}, all...)
			}
		case len(in.Choices) > 0:
			f.Kind = "choice"
			for _, one := range in.Choices {
				f.Choices = append(f.Choices, Choice{one[0], one[1]})
			}
		}
		all = append(all, f)
	}
	return all
}

// nextVersions are the versions that the cluster can be upgraded to.
func nextVersions(s Subject, k Known) []Choice {
	var all []Choice
	running := ui.ShownVersion(s.Cluster.Cluster)
	for _, v := range k.Versions().Data {
		if v.Version == running {
			for _, next := range v.Upgrades {
				all = append(all, Choice{next, next})
			}
		}
	}
	return all
}

// given is what the form came with, as verbs take it.
func given(v verbs.Verb, s Subject, g Given) url.Values {
	values := url.Values{}
	for _, in := range shown(v, s) {
		switch {
		case in.Kind == verbs.Texts:
			values[in.Name] = strings.Fields(g.Text(in.Name))
		case in.Kind != verbs.Tick:
			values.Set(in.Name, g.Text(in.Name))
		case g.On(in.Name):
			values.Set(in.Name, "true")
		}
	}
	return values
}

func ask(v verbs.Verb, s Subject, g Given) route.Asked {
	values := given(v, s, g)
	body, err := v.Sent(values)
	if err != nil || body == nil { // without a body that it needs the API refuses a verb; TestVerbs holds that there is none
		return post(v.Target(s.object(), values))
	}
	return send(http.MethodPost, v.Target(s.object(), values), body)
}

// line is the command that does the same.
func line(v verbs.Verb, s Subject, g Given) string {
	call, words := v.Words()
	values, arguments, flags := given(v, s, g), []string{s.object().Name()}, []string{}
	if v.Confirm != nil {
		flags = append(flags, "--yes")
	}
	for _, in := range shown(v, s) {
		switch text := values.Get(in.Name); {
		case in.Argument && len(values[in.Name]) > 1:
			arguments = append(arguments, values[in.Name]...)
		case in.Argument:
			word, _, _ := strings.Cut(words[len(arguments)], "|")
			arguments = append(arguments, orWord(text, word))
		case in.Kind == verbs.Tick && text != "":
			flags = append(flags, "--"+in.FlagName())
		case text == "" && in.Empty != "":
			flags = append(flags, "--"+in.Empty)
		default:
			if in.Required {
				text = orWord(text, strings.ToUpper(in.Name))
			}
			flags = append(flags, ui.ShellFlag("--"+in.FlagName(), text))
		}
	}
	return ui.ShellLine("drover "+strings.Join(call, " "), arguments, flags...)
}
