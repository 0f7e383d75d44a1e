package types

import (
	"github.com/drover-project/drover/server/api/forms"
	"github.com/drover-project/drover/server/api/steve"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/settings"
)

// Settings are those of the server; revision is that of one of them in the store.
func Settings(of *settings.Settings, revision func(name string) int64) steve.Type {
	seen := func(s settings.Setting) steve.Seen {
		return steve.Seen{About: auth.Object{Kind: auth.Setting, Key: s.Name}, Content: forms.Setting(s, revision(s.Name))}
	}
	return steve.Type{
		Schema: steve.Schema{Group: "management.cattle.io", Version: "v3", Kind: "Setting", Resource: "settings"}, Of: auth.Setting, Collection: subscribe.Settings,
		List: func() []steve.Seen {
			var all []steve.Seen
			for _, s := range of.List() {
				all = append(all, seen(s))
			}
			return all
		},
		Get: func(id string) (steve.Seen, bool) {
			s := of.Get(id)
			return seen(s), s.Name != ""
		},
		// One that is gone from the store is back at its default.
		Changed: func(c subscribe.Change) (string, *steve.Seen, bool) { return c.Key, nil, true },
	}
}
