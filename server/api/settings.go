// The type setting.

package api

import (
	"net/http"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/settings"
)

// isOpenSetting says that a setting is read before anybody logs in: to trust the
// server's certificate, and to draw a login page.
func isOpenSetting(name string) bool {
	switch name {
	case "cacerts", "first-login", "ui-banners", "ui-brand", "ui-default-landing", "ui-issues", "ui-pl":
		return true
	}
	return false
}

func (a *API) settingKind() *kind {
	return &kind{
		schema: norman.Schema{
			ID: "setting", Plural: "settings",
			Fields: norman.Fields(map[string]norman.Field{
				"name": {Type: "string"}, "value": {Type: "string", Update: true}, "default": {Type: "string"},
				"customized": {Type: "boolean", Default: false}, "source": {Type: "enum", Options: []string{"default", "db", "env"}},
			}),
		},
		list: func(*call) []norman.Object {
			all := a.Settings.List()
			objects := make([]norman.Object, len(all))
			for i, s := range all {
				objects[i] = settingObject(s)
			}
			return objects
		},
		get: func(_ *call, id string) (norman.Object, bool) {
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

// updateSetting stores a value; an empty one returns to the default.
func (a *API) updateSetting(c *call) (answer, error) {
	in, err := c.input(c.kind.schema)
	if err != nil {
		return answer{}, err
	}
	value, err := in.String("value")
	if err != nil {
		return answer{}, err
	}
	if !in.Has("value") {
		return answer{}, norman.Invalid(norman.MissingRequired, "value", "this field is required; an empty text returns to the default")
	}
	if err := a.Settings.Set(c.ctx(), c.id, value); err != nil {
		return answer{}, err
	}
	object := settingObject(a.Settings.Get(c.id))
	return answer{status: http.StatusOK, object: &object}, nil
}
