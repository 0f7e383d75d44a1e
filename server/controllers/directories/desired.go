package directories

import (
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
)

// due are the users of whom a directory has to be asked: they have a token, and what is known of them is older than maxAge.
func due(s *state.State, now time.Time, maxAge time.Duration) (all []records.User) {
	for _, u := range s.Users.List() {
		if asks(u.Value, now, maxAge) && s.TokensByUser.Count(u.Key) > 0 {
			all = append(all, u.Value)
		}
	}
	return all
}

// asks says whether a directory has to be asked about a user.
func asks(u records.User, now time.Time, maxAge time.Duration) bool {
	return len(u.Elsewhere) > 0 && !u.Disabled && now.Sub(u.Asked) >= maxAge
}
