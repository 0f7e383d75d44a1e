// Package auth knows who is asking: users with passwords, API tokens, login sessions,
// how each of them arrives in a request, and what they may do (May).
//
// Of tokens only hashes are stored; passwords are kept by bcrypt. Everything that
// compares a secret takes the same time for a name that does not exist.
package auth

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
)

// Errors of Authenticate and Login. For any fault of a credential, the caller
// learns no more than this.
var (
	// ErrUnauthenticated says that a request carries no credential that is valid now.
	ErrUnauthenticated = errors.New("must authenticate")
	// ErrExpired is ErrUnauthenticated for a caller that has the right key of a token whose time is
	// over; they may learn that.
	ErrExpired = fmt.Errorf("%w: the token has expired", ErrUnauthenticated)
	// ErrIdle is the same for the token of a login that was not used for as long as such tokens may rest.
	ErrIdle = fmt.Errorf("%w: the session was not used for too long and is over; log in again", ErrUnauthenticated)
	// ErrUserDisabled is the same for a caller that has the right key of a token whose user is disabled.
	ErrUserDisabled = fmt.Errorf("%w: the user of this token is disabled", ErrUnauthenticated)
	// ErrWrongPassword says that user and password of a login do not belong together.
	ErrWrongPassword = errors.New("authentication failed")
	// ErrDisabled says that the password is right and the user may not log in.
	ErrDisabled = errors.New("this user is disabled")
	// ErrForged says that a request with a cookie lacks the proof that a page of this server sent it.
	ErrForged = errors.New("the request is authenticated by cookie, so header X-API-CSRF must repeat the cookie CSRF of this session")
	// ErrCutOff says that the server cannot know whether a credential is still valid.
	ErrCutOff = errors.New("this server has lost the connection to its store and does not know who may do what: try again later, or ask another server")
	// ErrOrigin says that a page of another server opens a websocket with this server's cookie.
	ErrOrigin = errors.New("the request is authenticated by cookie and comes from a page of another origin")
)

// Identity is who sent a request.
type Identity struct {
	UserID, Username, DisplayName string
	// TokenName is the token that authenticated the request.
	TokenName string
	// Grants are what the user may do, and Admin says that it is everything.
	Grants *roles.Grants
	Admin  bool
	// ClusterID is the one cluster that the token is good for, or "" for no such limit.
	ClusterID string
	// MustChangePassword says that the user still has the password of the first start.
	MustChangePassword bool
	// Session says that the token was made by a login.
	Session bool
	// Expires is the end of the token; zero for never.
	Expires time.Time
	// PlanSecret is the plan Secret, "<namespace>/<name>", of a machine that asks by its own
	// token; all else is empty then.
	PlanSecret string
}

// TooManyError says that a user and source, or a source, failed too often.
type TooManyError = throttledError

// Auth knows users and tokens.
type Auth struct {
	// Uses are when tokens were used last. The code that serves requests notes that, and runs what keeps it.
	Uses *Uses
	// MaxTokens is how many tokens a user may have: a login beyond it ends the oldest session of the user and is not refused. Nil
	// and 0 are any number.
	MaxTokens func() int

	state    *state.State
	now      func() time.Time
	log      *slog.Logger
	failures Throttle
	cost     int
	// streams are what tokens have opened; see Until.
	streams Streams
	// unknown is compared with for users that do not exist.
	unknown []byte
	// hashing bounds how many passwords are hashed at once: each takes a core for tens of milliseconds.
	hashing chan struct{}
	// queued is how many wait for that.
	queued atomic.Int32
}

// New makes an Auth; now may be nil for the clock, log for silence.
func New(st *state.State, now func() time.Time, log *slog.Logger) *Auth {
	if now == nil {
		now = time.Now
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	a := &Auth{
		state: st, now: now, log: log, cost: bcrypt.DefaultCost, unknown: []byte(noHash),
		hashing: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
	a.Uses = newUses(st.TokenUses, func(name string) bool { _, ok := st.Tokens.Get(name); return ok }, now, log)
	a.follow() // as long as the store is open
	return a
}

// UnsafeCheapPasswords makes passwords cheap to hash, and so to guess. Tests only.
func (a *Auth) UnsafeCheapPasswords() {
	a.cost = bcrypt.MinCost
	a.unknown, _ = bcrypt.GenerateFromPassword([]byte("nobody"), a.cost) // the cost is valid and the text short
}

// noHash is the hash, at the default cost, of a random text that was thrown away.
const noHash = "$2a$10$aR3Mmgbj5tGY6KTCHMLrte8n7dhSZ0Z674qLiAofuizcuC0Q.9zVy"

// Users are all users, sorted by id.
func (a *Auth) Users() []records.User {
	docs := a.state.Users.List()
	users := make([]records.User, len(docs))
	for i, d := range docs {
		users[i] = d.Value
	}
	return users
}

// Known is the id of the user with a login name, in any case; empty for none.
func (a *Auth) Known(username string) string {
	u, _ := a.userByName(username)
	return u.ID
}

// userByName finds a user by login name, in any case.
func (a *Auth) userByName(username string) (records.User, bool) {
	d, ok := a.state.UsersByName.First(strings.ToLower(username))
	return d.Value, ok
}
