// What /v1 shows beside clusters and machines.

package api

import (
	"github.com/drover-project/drover/server/api/kube/persons"
	"github.com/drover-project/drover/server/api/secrets"
	"github.com/drover-project/drover/server/api/steve"
	stevetypes "github.com/drover-project/drover/server/api/steve/types"
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
		types = append(types, stevetypes.Person(k))
	}
	types = append(types, (&secrets.API{State: o.State}).Type())
	return append(types, stevetypes.Of(o.State, o.Now)...)
}
