// Types of what package persons and settings have.

package api

import (
	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/kube"
	"github.com/drover-project/drover/server/api/steve"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/settings"
)

// personType is the type of users, roles, bindings or projects.
func personType(k kube.PersonKind) steve.Type {
	seen := func(o kube.PersonObject) steve.Seen { return steve.Seen{About: o.May, Content: o.Content} }
	return steve.Type{
		Schema: steve.Schema{Group: k.Group, Version: k.Version, Kind: k.Kind, Resource: k.Plural, Namespaced: k.Namespaced}, Of: k.Of, Collection: k.Collection,
		List: func() []steve.Seen { return shown(k.List(), seen) },
		Get: func(id string) (steve.Seen, bool) {
			o, ok := k.Get(id)
			return seen(o), ok
		},
		Changed: func(c subscribe.Change) (string, *steve.Seen, bool) {
			id, gone, ok := k.Changed(c)
			if gone == nil {
				return id, nil, ok
			}
			last := seen(*gone)
			return id, &last, ok
		},
	}
}

// settingType is the type of settings; the revision is that of one by its name.
func settingType(of *settings.Settings, revision func(name string) int64) steve.Type {
	seen := func(s settings.Setting) steve.Seen {
		return steve.Seen{About: auth.Object{Kind: auth.Setting, Key: s.Name}, Content: k8sobjects.Setting(s, revision(s.Name))}
	}
	return steve.Type{
		Schema: steve.Schema{Group: "management.cattle.io", Version: "v3", Kind: "Setting", Resource: "settings"}, Of: auth.Setting, Collection: subscribe.Settings,
		List: func() []steve.Seen { return shown(of.List(), seen) },
		Get: func(id string) (steve.Seen, bool) {
			s := of.Get(id)
			return seen(s), s.Name != ""
		},
		// A setting that is gone from the store is back at its default.
		Changed: func(c subscribe.Change) (string, *steve.Seen, bool) { return c.Key, nil, true },
	}
}
