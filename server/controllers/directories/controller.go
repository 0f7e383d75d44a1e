// Package directories has the controller that asks outside directories about people who are away, so that a person who leaves a group
// loses what it gave them.
package directories

import (
	"context"
	"time"

	"github.com/drover-project/drover/server/directories/logins"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// lookAgain is how often the leader looks for people of whom a directory is to be asked.
const lookAgain = time.Minute

// Controller asks the directories of a desk.
type Controller struct{ *logins.Desk }

// Worker looks again and again for people of whom a directory is to be asked.
func (c *Controller) Worker() reconcile.Worker {
	return reconcile.Worker{
		Name: "directories", Title: "asks directories about people who are away", First: lookAgain, Resync: lookAgain,
		Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
			c.look(ctx)
			return reconcile.Result{}, nil
		},
	}
}

// Refresh asks about one user now. Its errors are *store.NotFoundError, directories.ErrNothingToAsk and *directories.UnavailableError.
func (c *Controller) Refresh(ctx context.Context, userID string) (records.User, error) {
	u, ok := c.State.Users.Get(userID)
	if !ok {
		return records.User{}, &store.NotFoundError{Collection: "users", Key: userID}
	}
	if err := c.refresh(ctx, u.Value, map[string]bool{}); err != nil {
		return u.Value, err
	}
	u, _ = c.State.Users.Get(userID)
	return u.Value, nil
}
