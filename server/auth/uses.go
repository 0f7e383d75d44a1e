// When tokens were used last. A use is noted in memory and written now and then, a small document for each
// token, so that a request costs no write; what a server that is killed had not written is lost.

package auth

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// usesEvery is how often uses are written, and so how far what another server knows may be behind.
const usesEvery = time.Minute

// Uses are those of all tokens.
type Uses struct {
	// Rest is how long a session may go unused; 0, or nil, for as long as it lives. It is set before the first request.
	Rest func() time.Duration

	kept *store.Collection[records.TokenUse]
	// exists says whether there is a token of a name.
	exists func(name string) bool
	now    func() time.Time
	log    *slog.Logger

	mu    sync.Mutex
	fresh map[string]time.Time
}

// newUses makes Uses over the collection that keeps them.
func newUses(kept *store.Collection[records.TokenUse], exists func(name string) bool, now func() time.Time, log *slog.Logger) *Uses {
	return &Uses{kept: kept, exists: exists, now: now, log: log, fresh: map[string]time.Time{}}
}

// Note says that a token is being used.
func (u *Uses) Note(name string) {
	now := u.now()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fresh[name] = now
}

// Last is when a token was used last; zero when that is not known.
func (u *Uses) Last(name string) time.Time {
	u.mu.Lock()
	last := u.fresh[name]
	u.mu.Unlock()
	if d, ok := u.kept.Get(name); ok && d.Value.At.After(last) {
		last = d.Value.At
	}
	return last
}

// Rested says whether the token of a login was not used for longer than it may. Another server may have seen it used since that
// was written last.
func (u *Uses) Rested(t records.Token) bool {
	if !t.Session || u.Rest == nil {
		return false
	}
	limit, last := u.Rest(), u.Last(t.Name)
	if last.Before(t.Created) {
		last = t.Created
	}
	return limit > 0 && u.now().Sub(last) > limit+usesEvery
}

// Worker writes uses, and those that are left when its server ends.
func (u *Uses) Worker() reconcile.Worker {
	return reconcile.Worker{
		Name: "token-uses", Title: "keeps when tokens were used last", Everywhere: true, First: usesEvery, Resync: usesEvery,
		Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
			u.Write(ctx)
			return reconcile.Result{}, nil
		},
		Start: func(ctx context.Context) (stop func()) {
			return func() {
				last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
				defer cancel()
				u.Write(last)
			}
		},
	}
}

// Write keeps what is not kept yet, and forgets tokens that are gone. What fails is tried again with the next one.
func (u *Uses) Write(ctx context.Context) {
	for _, d := range u.kept.List() {
		if !u.exists(d.Key) {
			u.done("forget", d.Key, u.kept.Delete(ctx, d.Key, 0))
		}
	}
	for name, at := range u.take() {
		if !u.exists(name) {
			continue
		}
		at = at.UTC().Truncate(time.Second)
		_, err := u.kept.Modify(ctx, name, func(is records.TokenUse) (records.TokenUse, error) {
			if !at.After(is.At) {
				return is, store.ErrUnchanged
			}
			return records.TokenUse{At: at}, nil
		})
		if _, missing := errors.AsType[*store.NotFoundError](err); missing {
			_, err = u.kept.Create(ctx, name, records.TokenUse{At: at})
		}
		if u.done("keep", name, err); err != nil {
			u.back(name, at)
		}
	}
}

func (u *Uses) done(what, name string, err error) {
	if err != nil {
		u.log.Debug("when a token was used last could not be kept", "what", what, "token", name, "error", err)
	}
}

func (u *Uses) take() map[string]time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	fresh := u.fresh
	u.fresh = map[string]time.Time{}
	return fresh
}

// back notes a use again that could not be written, unless there is a later one.
func (u *Uses) back(name string, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at.After(u.fresh[name]) {
		u.fresh[name] = at
	}
}
