// Noting that tokens are used, beside the reviews: a cluster that takes no writes, as one whose etcd
// has lost its quorum, still has to know who people are.

package apiauth

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/clusterauth"
)

const (
	// maxUses is how many uses wait to be noted; more are not noted.
	maxUses = 100
	// useLimit bounds the noting of one.
	useLimit = 5 * time.Second
)

type use struct {
	token, user string
	attributes  clusterauth.User
	at          time.Time
}

type uses struct {
	cluster *Cluster
	log     *slog.Logger
	now     func() time.Time
	waiting chan use
	once    sync.Once
	done    chan struct{}
}

func newUses(o Options) *uses {
	return &uses{cluster: o.Cluster, log: o.Logger, now: o.Now, waiting: make(chan use, maxUses), done: make(chan struct{})}
}

// note has a use of a token noted, if it is time for that.
func (u *uses) note(c credential, k known) {
	now := u.now()
	if !noteUse(*k.token, now) {
		return
	}
	select {
	case u.waiting <- use{token: c.name, user: k.token.UserName, attributes: *k.user, at: now}:
	default:
	}
}

// close ends write.
func (u *uses) close() { u.once.Do(func() { close(u.done) }) }

// write notes uses until ctx ends or close.
func (u *uses) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-u.done:
			return
		case one := <-u.waiting:
			if err := u.noted(ctx, one); err != nil && ctx.Err() == nil {
				u.log.Warn("the use of a token is not noted", "token", one.token, "error", err)
			}
		}
	}
}

func (u *uses) noted(ctx context.Context, one use) error {
	ctx, cancel := context.WithTimeout(ctx, useLimit)
	defer cancel()
	at := one.at.UTC().Truncate(time.Second).Format(time.RFC3339)
	if err := u.cluster.patch(ctx, clusterauth.Path(clusterauth.Tokens, one.token), map[string]string{"lastUsedAt": at}); err != nil {
		return err
	}
	debounce, set, err := u.cluster.debounce(ctx)
	if err != nil || !set || !overdue(one.attributes, debounce, one.at) {
		return err
	}
	return u.cluster.patch(ctx, clusterauth.Path(clusterauth.Users, one.user), map[string]bool{"needsRefresh": true})
}
