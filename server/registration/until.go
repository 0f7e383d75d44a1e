// What a machine's token opened ends with the token.

package registration

import (
	"context"
	"fmt"

	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// Until calls end once a token that MachineByToken accepted is no longer valid: another one
// has replaced it, or its machine was removed. end must not block. It is not called any
// more after stop.
func (k *Tokens) Until(bearer string, end func()) (stop func()) {
	key, ok := machineOf(bearer)
	if !ok {
		end()
		return func() {}
	}
	hash := randomid.Hash(bearer)
	return k.streams.Add(string(key), 0, func() bool {
		m, ok := k.state.Machines.Get(string(key))
		return ok && (same(hash, m.Value.TokenHash) || same(hash, m.Value.PreviousTokenHash) && !k.retiring.has(string(key), hash))
	}, end)
}

// follow checks what is open whenever the tokens of a machine change, for as
// long as the store is open.
func (k *Tokens) follow() {
	k.state.Machines.Observe(func(e store.Event[records.Machine]) {
		if e.Old != nil && (e.Type == store.Deleted || e.Old.TokenHash != e.Value.TokenHash || e.Old.PreviousTokenHash != e.Value.PreviousTokenHash) {
			k.streams.Check(e.Key)
		}
	})
}

// Worker strikes machines' tokens that are over off their machines; see MachineByToken. Each server does that for those it has noticed.
func (k *Tokens) Worker() reconcile.Worker {
	return reconcile.Worker{
		Name: "machine-tokens", Title: "ends the previous tokens of machines", Everywhere: true, RetryFirst: retryAfter,
		Watches: []reconcile.Watch{k.retiring.added.Watch()}, Keys: k.retiring.keys,
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			hash := k.retiring.of(key)
			if err := retire(ctx, k.state.Machines, key, hash); err != nil {
				return reconcile.Result{}, fmt.Errorf("end the previous token of machine %s: %w", key, err)
			}
			k.retiring.done(key, hash)
			return reconcile.Result{Gone: true}, nil
		},
	}
}
