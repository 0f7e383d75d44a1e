package directories

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/records"
)

// look asks about all who are due by auth-user-info-max-age-seconds. A directory that does not answer is left alone until the next
// look, and what is known stays.
func (c *Controller) look(ctx context.Context) {
	seconds, err := strconv.Atoi(c.Settings.Get("auth-user-info-max-age-seconds").Value)
	if err != nil || seconds == 0 {
		return
	}
	away := map[string]bool{}
	for _, u := range due(c.State, c.Now(), time.Duration(seconds)*time.Second) {
		if ctx.Err() != nil {
			return
		}
		if err := c.refresh(ctx, u, away); err != nil && !errors.Is(err, directories.ErrNothingToAsk) {
			c.Logger.Warn("a directory could not be asked about a user; what is known of them stays", "user", u.ID, "error", err)
		}
	}
}

// refresh asks the directories that know a user, but not those that are away, and notes which are.
func (c *Controller) refresh(ctx context.Context, u records.User, away map[string]bool) error {
	asked := false
	for _, principal := range u.Elsewhere {
		kind, _ := directories.KindOf(principal)
		d, ok := c.Enabled(kind)
		if !ok || away[kind] {
			continue
		}
		who, can, err := c.Ask(ctx, d, u.ID, principal)
		if !can {
			continue
		}
		asked = true
		switch {
		case errors.Is(err, directories.ErrGone):
			err = c.People.Leave(ctx, kind, u.ID, true)
		case errors.Is(err, directories.ErrLapsed):
			err = c.People.Leave(ctx, kind, u.ID, false)
		case err != nil:
			away[kind] = true
		default:
			err = c.People.Renew(ctx, d, u.ID, who)
		}
		if err != nil {
			return err
		}
	}
	if !asked && len(away) == 0 {
		return directories.ErrNothingToAsk
	}
	return nil
}
