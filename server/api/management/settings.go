// The type setting.

package management

import (
	"net/http"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/settings"
)

// Settings serves the type setting.
type Settings struct{ Settings *settings.Settings }

func (a Settings) kind() *Kind {
	return &Kind{
		Schema: norman.Schema{
			ID: "setting", Plural: "settings",
			Fields: norman.Fields(map[string]norman.Field{
				"labels": {Type: "map[string]"}, "annotations": {Type: "map[string]"}, // which are not kept
				"name": {Type: "string"}, "value": {Type: "string", Update: true}, "default": {Type: "string"},
				"customized": {Type: "boolean", Default: false}, "source": {Type: "enum", Options: []string{"default", "db", "env"}},
			}),
		},
		List: func(*route.Call) []norman.Object {
			all := a.Settings.List()
			objects := make([]norman.Object, len(all))
			for i, s := range all {
				objects[i] = settingObject(s)
			}
			return objects
		},
		Get: func(_ *route.Call, id string) (norman.Object, bool) {
			s := a.Settings.Get(id)
			return settingObject(s), s.Name != ""
		},
	}
}

func settingObject(s settings.Setting) norman.Object {
	return norman.Object{ID: s.Name, Fixed: s.ReadOnly, Kept: true, Fields: map[string]any{
		"name": s.Name, "value": s.Value, "default": s.Default, "customized": s.Customized, "source": string(s.Source),
		"creatorId": nil, "labels": map[string]string{}, "annotations": map[string]string{},
	}}
}

// Update stores a value; an empty one returns to the default.
func (a Settings) Update(c *Request, in norman.Input) (route.Answer, error) {
	value, err := in.String("value")
	if err != nil {
		return route.Answer{}, err
	}
	if !in.Has("value") {
		return route.Answer{}, norman.Invalid(norman.MissingRequired, "value", "this field is required; an empty text returns to the default")
	}
	if err := a.Settings.Set(c.Ctx(), c.id, value); err != nil {
		return route.Answer{}, err
	}
	object := settingObject(a.Settings.Get(c.id))
	return c.Shown(http.StatusOK, object), nil
}
