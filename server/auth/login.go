// Passwords: logging in with them and changing them.

package auth

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// maxPassword is what bcrypt takes, in bytes; it would ignore the rest.
const maxPassword = 72

// wellKnown is the password that scripts set at a first start. It is good for one
// login, in which it has to be changed: that login puts the mark spent before the hash.
const (
	wellKnown = "admin"
	spent     = "spent:"
)

// MaxUsername is the longest login name, in bytes.
const MaxUsername = 256

// Login checks user name and password of a user at a source (an address). Its errors
// are ErrWrongPassword, ErrDisabled, *TooManyError and *BusyError.
func (a *Auth) Login(ctx context.Context, username, password, source string) (records.User, error) {
	attempts, all := byUser(username, source), bySource(source)
	if err := a.failures.Begin(a.now(), attempts, all); err != nil {
		a.log.Warn("login refused after too many failures", "source", source)
		return records.User{}, err
	}
	if len(username) > MaxUsername {
		return records.User{}, ErrWrongPassword
	}
	user, exists := a.userByName(username)
	good, err := a.matches(ctx, user, password)
	if err != nil {
		return records.User{}, err
	}
	if exists && good && password == wellKnown {
		good, err = a.spend(ctx, user.ID)
		if err != nil {
			return records.User{}, err
		}
	}
	if !exists || !good {
		a.log.Warn("login failed", "source", source)
		return records.User{}, ErrWrongPassword
	}
	a.failures.Succeed(attempts, all)
	if user.Disabled {
		return records.User{}, ErrDisabled
	}
	a.log.Info("login", "user", user.ID, "source", source)
	return user, nil
}

// Attempt counts a login that something else than a password of this server decides, as a failed one until it is reported to
// have succeeded. Its error is a *TooManyError.
func Attempt(a *Auth, username, source string) (succeeded func(), err error) {
	attempts, all := byUser(username, source), bySource(source)
	if err := a.failures.Begin(a.now(), attempts, all); err != nil {
		a.log.Warn("login refused after too many failures", "source", source)
		return nil, err
	}
	return func() { a.failures.Succeed(attempts, all) }, nil
}

// spend notes that the well-known password was used; false when it was before.
func (a *Auth) spend(ctx context.Context, userID string) (bool, error) {
	first := true
	_, err := a.state.Users.Modify(ctx, userID, func(u records.User) (records.User, error) {
		if first = !strings.HasPrefix(u.PasswordHash, spent); !first {
			return u, store.ErrUnchanged
		}
		u.PasswordHash = spent + u.PasswordHash
		return u, nil
	})
	if err != nil {
		return false, fmt.Errorf("note the first login of user %s: %w", userID, err)
	}
	return first, nil
}

// maxQueued is how many passwords may wait to be hashed: a few seconds' worth.
const maxQueued = 32

// BusyError says that so many passwords wait to be checked that one more would wait too long.
type BusyError struct {
	// RetryAfter is how long to wait.
	RetryAfter time.Duration
}

func (e *BusyError) Error() string {
	return "too many logins at once: wait a moment and try again"
}

// queue waits for a turn to hash a password; done gives it back. Its error is a *BusyError
// when too many wait already.
func (a *Auth) queue(ctx context.Context) (done func(), err error) {
	if a.queued.Add(1) > maxQueued {
		a.queued.Add(-1)
		return nil, &BusyError{RetryAfter: 2 * time.Second}
	}
	defer a.queued.Add(-1)
	select {
	case a.hashing <- struct{}{}:
		return func() { <-a.hashing }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// niceness of the threads that hash passwords: a busy machine gives them a third of what others get. More would be paid for by
// everything else: the garbage collection has to wait for each thread.
const niceness = 5

// behindOthers runs f on a thread that the machine serves after the server's others, and waits for it: on a busy machine a flood
// of logins slows logins down, and not what else the server does.
func behindOthers(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()                                                                               // for good: the thread, and its niceness, end with this goroutine
		if now, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid()); err == nil && 20-now < niceness { // as the system call has it
			_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), niceness) // a system that refuses it runs f as all else
		}
		f()
	}()
	<-done
}

// matches takes the same time whether the user exists (has a hash) or not.
func (a *Auth) matches(ctx context.Context, user records.User, password string) (bool, error) {
	done, err := a.queue(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	hash := []byte(strings.TrimPrefix(user.PasswordHash, spent))
	if len(hash) == 0 {
		hash = a.unknown
	}
	short := password
	if len(short) > maxPassword {
		short = short[:maxPassword]
	}
	same := false
	behindOthers(func() { same = bcrypt.CompareHashAndPassword(hash, []byte(short)) == nil })
	return same && user.PasswordHash != "" && len(password) <= maxPassword, nil
}

// PasswordError says what is wrong with a password that a user chose or gave.
type PasswordError struct {
	// Current says that it is the current password that is wrong, not the new one.
	Current bool
	Reason  string
}

func (e *PasswordError) Error() string { return e.Reason }

// ChangePassword changes the caller's own password, and ends the user's other sessions.
// minLength counts characters. Its errors are *PasswordError and *TooManyError.
func (a *Auth) ChangePassword(ctx context.Context, who Identity, current, changed string, minLength int) error {
	user, ok := a.state.Users.Get(who.UserID)
	if !ok {
		return ErrUnauthenticated
	}
	attempts := byUser(user.Value.Username, "token "+who.TokenName)
	if err := a.failures.Begin(a.now(), attempts); err != nil {
		return err
	}
	good, err := a.matches(ctx, user.Value, current)
	if err != nil {
		return err
	}
	if !good {
		return &PasswordError{Current: true, Reason: "the current password is wrong"}
	}
	a.failures.Succeed(attempts)
	if changed == current {
		return &PasswordError{Reason: "the new password is the current one"}
	}
	_, err = a.setPassword(ctx, user, changed, minLength, who.TokenName)
	return err
}

// SetPassword gives a user another password; the token named keep stays, the user's
// other sessions end. The current password changes nothing and is no error: clients that cannot read
// passwords send it with each change of a user. Its errors are *PasswordError and *store.NotFoundError.
func (a *Auth) SetPassword(ctx context.Context, userID, changed string, minLength int, keep string) (records.User, error) {
	user, ok := a.state.Users.Get(userID)
	if !ok {
		return records.User{}, &store.NotFoundError{Collection: "users", Key: userID}
	}
	if same, err := a.matches(ctx, user.Value, changed); same || err != nil {
		return user.Value, err
	}
	return a.setPassword(ctx, user, changed, minLength, keep)
}

func (a *Auth) setPassword(ctx context.Context, user store.Document[records.User], changed string, minLength int, keep string) (records.User, error) {
	if err := wellFormed(user.Value.Username, changed, minLength); err != nil {
		return records.User{}, err
	}
	hash, err := a.hash(ctx, changed)
	if err != nil {
		return records.User{}, err
	}
	user.Value.PasswordHash, user.Value.MustChange = hash, false
	ops := []store.Op{a.state.Users.Updating(user)}
	first := records.Setting{Name: "first-login", Value: "false"}
	if set, ok := a.state.Settings.Get(first.Name); !ok {
		ops = append(ops, a.state.Settings.Creating(first.Name, first))
	} else if set.Value != first {
		set.Value = first
		ops = append(ops, a.state.Settings.Updating(set))
	}
	if _, err := a.state.Store.Commit(ctx, ops...); err != nil {
		return records.User{}, fmt.Errorf("change the password of user %s: %w", user.Value.ID, err)
	}
	a.log.Info("password changed", "user", user.Value.ID)
	// After the change: a session that the old password opened until now is among these.
	return user.Value, a.RevokeSessions(ctx, user.Value.ID, keep)
}

// HashNew is the hash of the first password of a user who is about to be made; minLength counts
// characters. Its errors are *PasswordError and *BusyError.
func (a *Auth) HashNew(ctx context.Context, username, password string, minLength int) (string, error) {
	if err := wellFormed(username, password, minLength); err != nil {
		return "", err
	}
	return a.hash(ctx, password)
}

// wellFormed says what is wrong with a password in itself.
func wellFormed(username, password string, minLength int) error {
	n := utf8.RuneCountInString(password)
	switch {
	case n < minLength:
		return &PasswordError{Reason: fmt.Sprintf("the password has %d characters; at least %d are needed", n, minLength)}
	case len(password) > maxPassword:
		return &PasswordError{Reason: fmt.Sprintf("the password has %d bytes; at most %d are possible", len(password), maxPassword)}
	case strings.EqualFold(password, username):
		return &PasswordError{Reason: "the password is the user name"}
	}
	return nil
}

func (a *Auth) hash(ctx context.Context, password string) (string, error) {
	if password == "" || len(password) > maxPassword {
		return "", &PasswordError{Reason: fmt.Sprintf("the password has %d bytes; 1 to %d are possible", len(password), maxPassword)}
	}
	done, err := a.queue(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	var hash []byte
	behindOthers(func() { hash, err = bcrypt.GenerateFromPassword([]byte(password), a.cost) })
	if err != nil {
		return "", errors.New("hash a password: the system refused") // the cause could name the password
	}
	return string(hash), nil
}
