// What a machine's token opened ends with the token.

package registration

import (
	"github.com/drover-project/drover/server/random"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// Until calls end once a token that MachineByToken accepted is no longer valid: another one
// has replaced it, or its machine was removed. end must not block. It is not called any
// more after stop.
func (g *Registration) Until(bearer string, end func()) (stop func()) {
	key, ok := machineOf(bearer)
	if !ok {
		end()
		return func() {}
	}
	hash := random.Hash(bearer)
	return g.streams.Add(string(key), 0, func() bool {
		m, ok := g.state.Machines.Get(string(key))
		return ok && (same(hash, m.Value.TokenHash) || same(hash, m.Value.PreviousTokenHash) && !g.retiring.has(string(key), hash))
	}, end)
}

// follow checks what is open whenever the tokens of a machine change, for as
// long as the store is open.
func (g *Registration) follow() {
	g.state.Machines.Observe(func(e store.Event[records.Machine]) {
		if e.Old != nil && (e.Type == store.Deleted || e.Old.TokenHash != e.Value.TokenHash || e.Old.PreviousTokenHash != e.Value.PreviousTokenHash) {
			g.streams.Check(e.Key)
		}
	})
}
