// What dashboards ask of /v3 for themselves: preferences, which each user has of their own, and features,
// by which they see what this server has.
//
// Wire source: rancher/rancher pkg/client/generated/management/v3 (Preference, Feature), pkg/features.

package access

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const (
	// maxPreferences bounds the preferences of one user, maxValue one of them in bytes.
	maxPreferences = 200
	maxValue       = 32 << 10
)

// PreferenceAPI serves preferences and features.
type PreferenceAPI struct {
	State *state.State
	Now   func() time.Time
}

// Kinds are the types of /v3.
func (a *PreferenceAPI) Kinds() []management.Kind {
	return []management.Kind{a.preferenceKind(), featureKind()}
}

func (a *PreferenceAPI) preferenceKind() management.Kind {
	return management.Kind{
		Schema: norman.Schema{ID: "preference", Plural: "preferences", Fields: norman.Fields(map[string]norman.Field{
			"labels": {Type: "map[string]"}, "annotations": {Type: "map[string]"}, // which are not kept
			"name": {Type: "string", Create: true, Required: true}, "value": {Type: "string", Create: true, Update: true, Required: true}, "userId": {Type: "reference[user]"},
		})},
		Owner: func(o norman.Object) string { owner, _ := o.Fields["userId"].(string); return owner },
		List: func(c *route.Call) []norman.Object {
			return norman.Objects(a.State.Preferences.ListIn(c.Who.UserID+"/"), func(d store.Document[records.Preference]) norman.Object { return preference(d.Value) })
		},
		Get: func(c *route.Call, id string) (norman.Object, bool) {
			d, ok := a.State.Preferences.Get(c.Who.UserID + "/" + id)
			return preference(d.Value), ok
		},
		Changed: func(c *route.Call, change subscribe.Change) (string, *norman.Object) {
			user, name, _ := strings.Cut(change.Key, "/")
			if change.Collection != subscribe.Preferences || user != c.Who.UserID {
				return "", nil
			}
			if p, ok := change.Removed.(records.Preference); ok {
				o := preference(p)
				return name, &o
			}
			return name, nil
		},
	}
}

func preference(p records.Preference) norman.Object {
	return norman.Object{ID: p.Name, Fields: map[string]any{
		"name": p.Name, "value": p.Value, "userId": p.UserID, "created": p.Created, "creatorId": norman.Reference(p.UserID),
		"labels": map[string]string{}, "annotations": map[string]string{},
	}}
}

// names are those of preferences, so that each can stand in a path.
var names = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`) })

func value(in norman.Input) (string, error) {
	text, err := in.String("value")
	if err == nil && len(text) > maxValue {
		return "", norman.Invalid(norman.MaxLengthExceeded, "value", "has %d bytes; at most %d are kept", len(text), maxValue)
	}
	return text, err
}

// CreatePreference is POST of the type: for the caller, even when the body names another.
func (a *PreferenceAPI) CreatePreference(c *management.Request, in norman.Input) (_ route.Answer, err error) {
	p := records.Preference{UserID: c.Who.UserID, Created: a.Now().UTC()}
	if p.Name, err = in.Required("name"); err != nil {
		return route.Answer{}, err
	}
	if !names().MatchString(p.Name) {
		return route.Answer{}, norman.Invalid(norman.InvalidCharacters, "name", "%.80q is not a valid name: letters, digits and . _ -", p.Name)
	}
	if p.Value, err = value(in); err != nil {
		return route.Answer{}, err
	}
	if len(a.State.Preferences.ListIn(p.UserID+"/")) >= maxPreferences {
		return route.Answer{}, norman.Invalid(norman.MaxLimitExceeded, "", "there are %d preferences, and no more are kept", maxPreferences)
	}
	if _, err := a.State.Preferences.Create(c.Ctx(), p.Key(), p); err != nil {
		if _, known := a.State.Preferences.Get(p.Key()); known {
			return route.Answer{}, norman.Invalid(norman.NotUnique, "name", "there is a preference %q already", p.Name)
		}
		return route.Answer{}, err
	}
	return c.Shown(http.StatusCreated, preference(p)), nil
}

// UpdatePreference is PUT: the value changes.
func (a *PreferenceAPI) UpdatePreference(c *management.Request, in norman.Input) (route.Answer, error) {
	text, err := value(in)
	if err != nil {
		return route.Answer{}, err
	}
	d, err := a.State.Preferences.Modify(c.Ctx(), c.Who.UserID+"/"+c.ID(), func(p records.Preference) (records.Preference, error) {
		if in.Has("value") {
			p.Value = text
		}
		return p, nil
	})
	if err != nil {
		return route.Answer{}, err
	}
	return c.Shown(http.StatusOK, preference(d.Value)), nil
}

// Set writes several preferences of a user, all or none: an empty value removes one, and those that are not named stay. Errors are 422 or the
// store's.
func (a *PreferenceAPI) Set(ctx context.Context, userID string, values map[string]string) error {
	var ops []store.Op
	count := len(a.State.Preferences.ListIn(userID + "/"))
	for name, value := range values {
		p := records.Preference{UserID: userID, Name: name, Value: value, Created: a.Now().UTC()}
		d, exists := a.State.Preferences.Get(p.Key())
		switch {
		case !names().MatchString(name):
			return norman.Invalid(norman.InvalidCharacters, "data", "%.80q is not a valid name: letters, digits and . _ -", name)
		case len(value) > maxValue:
			return norman.Invalid(norman.MaxLengthExceeded, "data", "%.80q has %d bytes; at most %d are kept", name, len(value), maxValue)
		case exists && value == "":
			ops, count = append(ops, a.State.Preferences.Deleting(d.Key, d.Revision)), count-1
		case exists && d.Value.Value != value:
			d.Value.Value = value
			ops = append(ops, a.State.Preferences.Updating(d))
		case !exists && value != "":
			ops, count = append(ops, a.State.Preferences.Creating(p.Key(), p)), count+1
		}
	}
	if count > maxPreferences {
		return norman.Invalid(norman.MaxLimitExceeded, "data", "there would be %d preferences; at most %d are kept", count, maxPreferences)
	}
	if len(ops) == 0 {
		return nil
	}
	if _, err := a.State.Store.Commit(ctx, ops...); err != nil {
		return fmt.Errorf("write the preferences of user %s: %w", userID, err)
	}
	return nil
}

// RemovePreference is DELETE.
func (a *PreferenceAPI) RemovePreference(c *management.Request) (route.Answer, error) {
	return route.Answer{Status: http.StatusNoContent}, a.State.Preferences.Delete(c.Ctx(), c.Who.UserID+"/"+c.ID(), 0)
}

// Features are those that dashboards look for, with whether this server has them. None can be switched.
func Features() []Feature {
	return []Feature{
		{"continuous-delivery", false, "Continuous delivery by Fleet's own page"},
		{"fleet", false, "Fleet in each cluster"},
		{"harvester", false, "Virtual machines of Harvester"},
		{"legacy", false, "Charts, alerts and pipelines of old versions"},
		{"multi-cluster-management", true, "Clusters beside the one that the server runs in"},
		{"provisioningv2", true, "Clusters of k3s and RKE2 by provisioning.cattle.io/v1"},
		{"rke2", true, "Clusters of RKE2"},
		{"token-hashing", true, "Tokens are kept as hashes alone"},
		{"v3-public", true, "Logins by /v3-public beside /v1-public"},
	}
}

// Feature is one of them.
type Feature struct {
	Name        string
	On          bool
	Description string
}

func featureKind() management.Kind {
	object := func(f Feature) norman.Object {
		return norman.Object{ID: f.Name, Fixed: true, Kept: true, Fields: map[string]any{
			"name": f.Name, "value": f.On, "description": f.Description, "created": nil, "creatorId": nil, "labels": map[string]string{}, "annotations": map[string]string{},
			"status": map[string]any{"default": f.On, "description": f.Description, "dynamic": false, "lockedValue": f.On},
		}}
	}
	return management.Kind{
		Schema: norman.Schema{ID: "feature", Plural: "features", Fields: norman.Fields(map[string]norman.Field{
			"name": {Type: "string"}, "value": {Type: "boolean", Nullable: true}, "description": {Type: "string"}, "status": {Type: "featureStatus"},
		})},
		List: func(*route.Call) []norman.Object { return norman.Objects(Features(), object) },
		Get: func(_ *route.Call, id string) (norman.Object, bool) {
			for _, f := range Features() {
				if f.Name == id {
					return object(f), true
				}
			}
			return norman.Object{}, false
		},
		Changed: func(*route.Call, subscribe.Change) (string, *norman.Object) { return "", nil },
	}
}
