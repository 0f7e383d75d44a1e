// Tokens: made here, shown once, kept as hashes.

package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/plans/clusterauth"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// nameTries bounds how often a generated name that exists already is drawn again; there
// are 14 million of them.
const nameTries = 20

// IssueToken stores a new token and returns its text "<name>:<key>", which no one can
// read again. The caller sets UserID and, as wanted, Description, ClusterID, Session
// and TTLMillis (0 never expires). A token without a Name is called token-xxxxx; one
// with a name that exists gives a *store.ExistsError.
func (a *Auth) IssueToken(ctx context.Context, t records.Token) (string, records.Token, error) {
	if _, ok := a.state.Users.Get(t.UserID); !ok {
		return "", records.Token{}, fmt.Errorf("issue a token: there is no user %q", t.UserID)
	}
	key := randomid.Secret()
	t.KeyHash, t.Created, t.Expires = randomid.Hash(key), a.now().UTC(), time.Time{}
	if t.ClusterID != "" {
		t.ClusterHash = clusterauth.Hash(key)
	}
	if t.TTLMillis > 0 {
		t.Expires = t.Created.Add(time.Duration(t.TTLMillis) * time.Millisecond)
	}
	generated := t.Name == ""
	for try := 1; ; try++ {
		if generated {
			t.Name = "token-" + randomid.ID(5)
		}
		_, err := a.state.Tokens.Create(ctx, t.Name, t)
		if _, exists := errors.AsType[*store.ExistsError](err); exists && generated && try < nameTries {
			continue
		}
		if err != nil {
			return "", records.Token{}, fmt.Errorf("issue a token: %w", err)
		}
		if t.Session && a.MaxTokens != nil {
			for _, d := range crowdedOut(a.state.TokensByUser.Find(t.UserID), t.Name, a.MaxTokens()) {
				if err := a.RevokeToken(ctx, d.Key); err != nil { // which keeps no user out
					a.log.Warn("an old session could not be ended to make room for a new one", "user", t.UserID, "error", err)
				}
			}
		}
		a.log.Info("token issued", "token", t.Name, "user", t.UserID, "ttl_ms", t.TTLMillis, "description", t.Description)
		return t.Name + ":" + key, t, nil
	}
}

// crowdedOut are the oldest sessions of a user who has more than the most tokens, but for the one that has just begun: as many as are
// too many, as far as there are that many. 0 is any number.
func crowdedOut(all []*store.Document[records.Token], begun string, most int) []*store.Document[records.Token] {
	excess := len(all) - most
	if most == 0 || excess <= 0 {
		return nil
	}
	sessions := slices.DeleteFunc(all, func(d *store.Document[records.Token]) bool { return !d.Value.Session || d.Key == begun })
	slices.SortFunc(sessions, func(x, y *store.Document[records.Token]) int { return x.Value.Created.Compare(y.Value.Created) })
	return sessions[:min(excess, len(sessions))]
}

// Tokens are all tokens, sorted by name.
func (a *Auth) Tokens() []records.Token {
	docs := a.state.Tokens.List()
	tokens := make([]records.Token, len(docs))
	for i, d := range docs {
		tokens[i] = d.Value
	}
	return tokens
}

// Token is one token.
func (a *Auth) Token(name string) (records.Token, bool) {
	d, ok := a.state.Tokens.Get(name)
	return d.Value, ok
}

// DescribeToken changes a token's description. The errors are those of the store: store.NotFoundError without it.
func (a *Auth) DescribeToken(ctx context.Context, name, description string) (records.Token, error) {
	d, err := a.state.Tokens.Modify(ctx, name, func(t records.Token) (records.Token, error) {
		if t.Description == description {
			return t, store.ErrUnchanged
		}
		t.Description = description
		return t, nil
	})
	return d.Value, err
}

// RevokeToken deletes a token; one that is gone already is not an error.
func (a *Auth) RevokeToken(ctx context.Context, name string) error {
	err := a.state.Tokens.Delete(ctx, name, 0)
	if _, gone := errors.AsType[*store.NotFoundError](err); gone {
		return nil
	}
	if err != nil {
		return fmt.Errorf("revoke token %s: %w", name, err)
	}
	a.log.Info("token revoked", "token", name)
	return nil
}

// RevokeSessions ends the login sessions of a user, but for the token named keep. The errors are those of RevokeToken.
func (a *Auth) RevokeSessions(ctx context.Context, userID, keep string) error {
	for _, d := range a.state.Tokens.List() {
		if t := d.Value; t.Session && t.UserID == userID && t.Name != keep {
			if err := a.RevokeToken(ctx, t.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Purge deletes tokens whose end lies longer back than keep. The leader calls it now and then. The errors are those of RevokeToken.
func (a *Auth) Purge(ctx context.Context, keep time.Duration) error {
	for _, d := range a.state.Tokens.List() {
		if Expired(d.Value, a.now().Add(-keep)) {
			if err := a.RevokeToken(ctx, d.Key); err != nil {
				return err
			}
		}
	}
	return nil
}
