// What /v1 shows beside clusters and machines.

package api

import (
	"github.com/drover-project/drover/server/api/kube"
	"github.com/drover-project/drover/server/api/kube/persons"
	"github.com/drover-project/drover/server/api/steve"
	stevetypes "github.com/drover-project/drover/server/api/steve/types"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/people"
)

// typesOfV1 are those types.
func (o Options) typesOfV1(p *people.People) []steve.Type {
	types := []steve.Type{stevetypes.Settings(o.Settings, func(name string) int64 {
		d, _ := o.State.Settings.Get(name)
		return max(1, d.Revision)
	})}
	made := persons.API{State: o.State, People: p}
	for _, k := range append(made.Kinds(), made.Namespaces()) {
		types = append(types, typeOfV1(k))
	}
	return append(types, stevetypes.Of(o.State, o.Now)...)
}

func typeOfV1(k persons.Kind) steve.Type {
	seen := func(o persons.Object) steve.Seen { return steve.Seen{About: o.May, Content: o.Content} }
	return steve.Type{
		Schema: steve.Schema{Group: k.Group, Version: k.Version, Kind: k.Kind, Resource: k.Plural, Namespaced: k.Namespaced}, Of: k.Of, Collection: k.Collection,
		List: func() []steve.Seen {
			var all []steve.Seen
			for _, o := range k.List() {
				all = append(all, seen(o))
			}
			return all
		},
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

// outline is the handlers as far as the table is made of them.
func outline() handlers {
	return handlers{kube: *kube.New(kube.Options{}), v1: steve.New(steve.Options{Others: Options{}.typesOfV1(nil)})}
}
