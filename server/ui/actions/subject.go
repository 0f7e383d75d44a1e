// What actions are done to.

package actions

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/ui"
)

// Subject is what an action is done to. That without a kind is nothing yet: the action makes something.
type Subject struct {
	Kind auth.Kind
	// Key is what addresses of the page call it, Name what people do, and ID the API of /v3.
	Key, Name, ID string
	// About is what auth.May is asked about.
	About auth.Object
	// URL is its page, Section the entry of the navigation.
	URL, Section string

	// One of these is what it is.
	Cluster   *ui.Cluster
	Machine   *apitypes.Machine
	Operation *apitypes.Operation
	User      *ui.User
	Token     *apitypes.Token
	Setting   *ui.Setting
	Fleet     *apitypes.Fleet
	Binding   *ui.Binding
}

// may says whether a user may do something to the subject.
func (s Subject) may(who auth.Identity, verb auth.Verb) bool { return auth.May(who, verb, s.About) }

// subjectOf is the subject that a value of ui.Facts is; without a kind for what is none.
func subjectOf(thing any) Subject {
	switch t := thing.(type) {
	case ui.Cluster:
		key := t.Namespace + "/" + t.Name
		return Subject{Kind: auth.Cluster, Key: key, Name: t.Name, ID: t.ID, About: auth.OfCluster(t.ID), URL: ui.ClusterURL(key), Section: "clusters", Cluster: &t}
	case apitypes.Machine:
		about := auth.Object{Kind: auth.Machine, Key: t.ID, Cluster: t.ClusterID}
		return Subject{Kind: auth.Machine, Key: t.ID, Name: t.Name, ID: t.NodeID, About: about, URL: ui.MachineURL(t.ID), Section: "machines", Machine: &t}
	case ui.Machine:
		return subjectOf(t.Machine)
	case ui.Operation:
		about := auth.Object{Kind: auth.Operation, Key: t.ID, Cluster: t.ClusterID}
		section := "clusters"
		if t.Fleet {
			section = "fleets"
		}
		return Subject{Kind: auth.Operation, Key: t.ID, Name: cmp.Or(t.Title, string(t.Kind)), ID: t.ID, About: about, URL: ui.OperationURL(t.ID), Section: section, Operation: &t.Operation}
	case ui.User:
		return Subject{Kind: auth.User, Key: t.ID, Name: t.Username, ID: t.ID, About: auth.Object{Kind: auth.User, Key: t.ID, Owner: t.ID}, Section: "users", User: &t}
	case apitypes.Token:
		return Subject{Kind: auth.Token, Key: t.Name, Name: t.Name, ID: t.Name, About: auth.Object{Kind: auth.Token, Key: t.Name, Owner: t.UserID}, Section: "tokens", Token: &t}
	case ui.Setting:
		return Subject{Kind: auth.Setting, Key: t.Name, Name: t.Name, ID: t.Name, About: auth.Object{Kind: auth.Setting, Key: t.Name}, Section: "settings", Setting: &t}
	case apitypes.Fleet:
		return Subject{Kind: auth.Fleet, Key: t.Name, Name: t.Name, ID: t.ID, About: auth.Object{Kind: auth.Fleet, Key: t.ID}, URL: ui.FleetURL(t.Name), Section: "fleets", Fleet: &t}
	case ui.Binding:
		return Subject{Kind: auth.ClusterBinding, Key: t.ID, Name: t.ID, ID: t.ID, About: t.About, Section: "bindings", Binding: &t}
	}
	return Subject{}
}

// subject is the thing with a key, for those who may see it.
func (p *Pages) subject(who auth.Identity, kind auth.Kind, key string) (Subject, error) {
	found, thing := false, any(nil)
	switch kind {
	case "":
		return Subject{}, nil
	case auth.Cluster:
		thing, found = unpair(p.Facts.Cluster(who, key))
	case auth.Machine:
		thing, found = unpair(p.Facts.Machine(who, key))
	case auth.Operation:
		thing, found = unpair(p.Facts.Operation(who, key))
	case auth.User:
		thing, found = among(p.Facts.Users(who), func(u ui.User) string { return u.ID }, key)
	case auth.Token:
		thing, found = among(p.Facts.Tokens(who), func(t apitypes.Token) string { return t.Name }, key)
	case auth.Setting:
		thing, found = among(p.Facts.Settings(who), func(s ui.Setting) string { return s.Name }, key)
	case auth.Fleet:
		thing, found = among(p.Facts.Fleets(who), func(f apitypes.Fleet) string { return f.Name }, key)
	case auth.ClusterBinding:
		thing, found = among(p.Facts.Bindings(who), func(b ui.Binding) string { return b.ID }, key)
	default:
	}
	if !found || strings.Count(key, "/") > 1 {
		return Subject{}, norman.Missing(string(kind), key)
	}
	return subjectOf(thing), nil
}

func unpair[T any](thing T, ok bool) (any, bool) { return thing, ok }

func among[T any](all []T, key func(T) string, wanted string) (any, bool) {
	i := slices.IndexFunc(all, func(one T) bool { return key(one) == wanted })
	if i < 0 {
		return nil, false
	}
	return all[i], true
}
