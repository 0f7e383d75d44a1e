// Asking directories about people who are away, so that whoever leaves a group loses what it gave them.

package desk

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// lookAgain is how often the leader looks for whom a directory is to be asked about.
const lookAgain = time.Minute

// Worker looks again and again for people of whom a directory is to be asked.
func (d *Desk) Worker() reconcile.Worker {
	return reconcile.Worker{
		Name: "directories", Title: "asks directories about people who are away", First: lookAgain, Resync: lookAgain,
		Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
			d.Look(ctx)
			return reconcile.Result{}, nil
		},
	}
}

// Look asks about everybody who has a token and of whom what is known is older than auth-user-info-max-age-seconds. A directory
// that does not answer is left alone until the next look, and what is known stays.
func (d *Desk) Look(ctx context.Context) {
	seconds, err := strconv.Atoi(d.Settings.Get("auth-user-info-max-age-seconds").Value)
	if err != nil || seconds == 0 {
		return
	}
	now := d.Now()
	away := map[string]bool{}
	for _, u := range d.State.Users.List() {
		if !Due(u.Value, now, time.Duration(seconds)*time.Second) || d.State.TokensByUser.Count(u.Key) == 0 || ctx.Err() != nil {
			continue
		}
		if err := d.refresh(ctx, u.Value, away); err != nil && !errors.Is(err, ErrNothingToAsk) {
			d.Logger.Warn("a directory could not be asked about a user; what is known of them stays", "user", u.Key, "error", err)
		}
	}
}

// Due says whether a directory has to be asked about a user.
func Due(u records.User, now time.Time, maxAge time.Duration) bool {
	return len(u.Elsewhere) > 0 && !u.Disabled && now.Sub(u.Asked) >= maxAge
}

// ErrNothingToAsk says that no directory can be asked about a user.
var ErrNothingToAsk = errors.New("no directory can be asked about this user: they have no principal of one that is enabled, or it tells nothing until they log in")

// Refresh asks about one user now. Its errors are *store.NotFoundError, ErrNothingToAsk and *directories.UnavailableError.
func (d *Desk) Refresh(ctx context.Context, userID string) (records.User, error) {
	u, ok := d.State.Users.Get(userID)
	if !ok {
		return records.User{}, &store.NotFoundError{Collection: "users", Key: userID}
	}
	if err := d.refresh(ctx, u.Value, map[string]bool{}); err != nil {
		return u.Value, err
	}
	u, _ = d.State.Users.Get(userID)
	return u.Value, nil
}

// refresh asks the directories that know a user, but not those that are away, and notes which are.
func (d *Desk) refresh(ctx context.Context, u records.User, away map[string]bool) error {
	asked := false
	for _, principal := range u.Elsewhere {
		kind, _ := directories.KindOf(principal)
		c, ok := d.Enabled(kind)
		if !ok || away[kind] {
			continue
		}
		who, can, err := d.about(ctx, c, u.ID, principal)
		if !can {
			continue
		}
		asked = true
		switch {
		case errors.Is(err, directories.ErrGone):
			err = d.People.Leave(ctx, kind, u.ID, true)
		case errors.Is(err, directories.ErrLapsed):
			err = d.People.Leave(ctx, kind, u.ID, false)
		case err != nil:
			away[kind] = true
		default:
			err = d.People.Renew(ctx, c, u.ID, who)
		}
		if err != nil {
			return err
		}
	}
	if !asked && len(away) == 0 {
		return ErrNothingToAsk
	}
	return nil
}

// about is what a directory says of a principal; can is false where it cannot be asked.
func (d *Desk) about(ctx context.Context, c records.Directory, userID, principal string) (who directories.Person, can bool, err error) {
	s, err := d.open(c)
	if err != nil {
		return who, true, err
	}
	if s.passwords != nil {
		who, err = s.passwords.Find(ctx, principal)
	} else {
		kept, ok := d.State.DirectoryTokens.Get(userID)
		if !ok || kept.Value.Kind != c.Kind {
			return who, false, nil
		}
		who, err = s.browsers.Again(ctx, kept.Value.Token)
	}
	if err == nil && who.Principal != principal {
		err = directories.ErrGone // an entry that was renamed, or a token of somebody else
	}
	return who, true, err
}
