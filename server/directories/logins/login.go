// Logins: by a password that a directory checks, and through a browser.

package logins

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
)

// ReturnPath is where browsers come back to from a directory: the path that Rancher has, so that what it was registered with
// serves for this server, too.
const ReturnPath = "/verify-auth"

// How long people have at the directory, and the command line for its token.
const (
	atDirectory  = 10 * time.Minute
	toCollect    = time.Minute
	useJourney   = "journey"
	useCollect   = "collect"
	maxAnswer    = 200
	maxChallenge = 100
	maxTo        = 1024
)

// ErrUnknown says that there is no such way to log in.
var ErrUnknown = errors.New("there is no such directory, or it is disabled")

// Login is whom a directory knows by a name and a password. Its errors are ErrUnknown, those of auth.Login, of people.Arrive and
// *directories.UnavailableError.
func (d *Desk) Login(ctx context.Context, kind, username, password, source string) (records.User, error) {
	c, ok := d.Enabled(kind)
	if !ok || !directories.ByPassword(kind) {
		return records.User{}, ErrUnknown
	}
	succeeded, err := auth.Attempt(d.Auth, kind+"\x00"+username, source)
	if err != nil {
		return records.User{}, err
	}
	if username == "" || password == "" || len(username) > auth.MaxUsername {
		return records.User{}, auth.ErrWrongPassword
	}
	s, err := d.open(c)
	if err != nil {
		return records.User{}, err
	}
	done, err := d.turn()
	if err != nil {
		succeeded() // that it was refused says nothing about the password
		return records.User{}, err
	}
	defer done()
	who, err := s.passwords.Login(ctx, username, password)
	switch {
	case errors.Is(err, directories.ErrWrongPassword):
		d.Logger.Warn("login failed", "directory", kind, "source", source)
		return records.User{}, auth.ErrWrongPassword
	case err != nil:
		succeeded()
		return records.User{}, err
	}
	succeeded()
	return d.arrive(ctx, c, who, source)
}

func (d *Desk) arrive(ctx context.Context, c records.Directory, who directories.Person, source string) (records.User, error) {
	u, err := d.People.Arrive(ctx, c, who)
	if err != nil {
		d.Logger.Warn("login refused", "directory", c.Kind, "principal", who.Principal, "source", source, "error", err)
		return u, err
	}
	d.Logger.Info("login", "directory", c.Kind, "user", u.ID, "source", source)
	return u, nil
}

// Request is what is asked of a login through a browser: To by the page, the others by a command line.
type Request struct {
	// To is the address of the page that the browser is sent to at the end, with a session of its own.
	To string
	// Port is where it waits at the loopback address; the browser is sent nowhere else.
	Port int
	// Challenge is directories.Digest of a secret of the command line, Answer a text that it gets back with the code.
	Challenge, Answer string
}

// Check says what is wrong with a request. The error is a directories.Denied.
func (w Request) Check() error {
	switch {
	case w.To != "":
		if len(w.To) > maxTo {
			return directories.Denied("the address to go on to is longer than %d bytes", maxTo)
		}
		return nil
	case w.Port < 1024 || w.Port > 65535:
		return directories.Denied("port is not one from 1024 to 65535, at which a command line waits on this browser's machine")
	case len(w.Challenge) < 43 || len(w.Challenge) > maxChallenge:
		return directories.Denied("challenge is not the SHA-256 of a secret in base64url")
	case w.Answer == "" || len(w.Answer) > maxAnswer:
		return directories.Denied("answer is empty or longer than %d bytes", maxAnswer)
	}
	return nil
}

// SetOut begins a login: at is where the browser is sent, cookie what it has to bring back besides. Its errors are ErrUnknown,
// *directories.DeniedError and *directories.UnavailableError.
func (d *Desk) SetOut(ctx context.Context, kind string, w Request) (at, cookie string, err error) {
	c, ok := d.Enabled(kind)
	if !ok || directories.ByPassword(kind) {
		return "", "", ErrUnknown
	}
	if err := w.Check(); err != nil {
		return "", "", err
	}
	server := d.Settings.ServerURL()
	if server == "" {
		return "", "", directories.Denied("the setting server-url is empty, so that the directory cannot send a browser back; an administrator sets it")
	}
	cookie = randomid.Secret()
	j := directories.Journey{
		Kind: kind, Nonce: randomid.Secret(), Verifier: randomid.Secret(), Port: w.Port, Challenge: w.Challenge, Answer: w.Answer, To: w.To, Browser: directories.Digest(cookie),
	}
	sealed, err := d.sealer.Seal(useJourney, j, atDirectory)
	if err != nil {
		return "", "", err
	}
	s, err := d.open(c)
	if err != nil {
		return "", "", err
	}
	done, err := d.turn()
	if err != nil {
		return "", "", err
	}
	defer done()
	at, err = s.browsers.Begin(ctx, directories.Trip{State: sealed, Nonce: j.Nonce, Verifier: j.Verifier, Redirect: server + ReturnPath})
	return at, cookie, err
}

// Returned is what a browser brings back from a directory.
type Returned struct {
	State, Code string
	// Problem is what the directory says instead of a code: OAuth's parameter error.
	Problem string
	Cookie  string
}

// Arrived is how a login through a browser ended.
type Arrived struct {
	// At is where the browser is sent.
	At string
	// User is who gets a session in this browser, by the directory of Kind; nil for a login of a command line.
	User *records.User
	Kind string
}

// Return ends a login: the browser is sent to the command line, with a code or with what went wrong, or to the page. An
// error is told to the person at the browser.
func (d *Desk) Return(ctx context.Context, r Returned, source string) (Arrived, error) {
	var j directories.Journey
	if err := d.sealer.Open(useJourney, r.State, &j); err != nil {
		return Arrived{}, directories.Denied("the state of this login is not valid: %v", err)
	}
	if !directories.Proves(r.Cookie, j.Browser) {
		return Arrived{}, directories.Denied("this login was begun in another browser, or its cookie is lost: begin it again")
	}
	if j.To != "" {
		return d.toPage(ctx, j, r, source)
	}
	at, err := d.toCommandLine(ctx, j, r, source)
	return Arrived{At: at}, err
}

// toPage ends a login on the page.
func (d *Desk) toPage(ctx context.Context, j directories.Journey, r Returned, source string) (Arrived, error) {
	u, err := d.finish(ctx, j, r, source)
	if err == nil && u.Disabled {
		err = auth.ErrDisabled
	}
	if err != nil {
		d.Logger.Warn("login through a browser failed", "directory", j.Kind, "source", source, "error", err)
		return Arrived{}, directories.Denied("%v", Public(err))
	}
	return Arrived{At: j.To, User: &u, Kind: j.Kind}, nil
}

func (d *Desk) toCommandLine(ctx context.Context, j directories.Journey, r Returned, source string) (at string, err error) {
	to := func(name, value string) string {
		query := url.Values{"answer": {j.Answer}, name: {value}}
		return "http://127.0.0.1:" + strconv.Itoa(j.Port) + "/?" + query.Encode()
	}
	u, err := d.finish(ctx, j, r, source)
	if err != nil {
		d.Logger.Warn("login through a browser failed", "directory", j.Kind, "source", source, "error", err)
		return to("error", Public(err).Error()), nil
	}
	code, err := d.sealer.Seal(useCollect, directories.Arrival{Kind: j.Kind, UserID: u.ID, Challenge: j.Challenge}, toCollect)
	if err != nil {
		return "", err
	}
	return to("code", code), nil
}

func (d *Desk) finish(ctx context.Context, j directories.Journey, r Returned, source string) (records.User, error) {
	c, ok := d.Enabled(j.Kind)
	switch {
	case !ok || directories.ByPassword(j.Kind):
		return records.User{}, ErrUnknown
	case r.Problem != "":
		return records.User{}, directories.Denied("directory %s refuses the login: %.100q", j.Kind, r.Problem)
	case r.Code == "":
		return records.User{}, directories.Denied("directory %s sent the browser back without a code", j.Kind)
	}
	s, err := d.open(c)
	if err != nil {
		return records.User{}, err
	}
	done, err := d.turn()
	if err != nil {
		return records.User{}, err
	}
	defer done()
	who, err := s.browsers.Finish(ctx, directories.Trip{State: r.State, Nonce: j.Nonce, Verifier: j.Verifier, Redirect: d.Settings.ServerURL() + ReturnPath}, r.Code)
	if err != nil {
		return records.User{}, err
	}
	return d.arrive(ctx, c, who, source)
}

// Collect is the user who arrived with a code, for the command line that began the login and proves it by its verifier. Its
// errors are ErrUnknown, auth.ErrWrongPassword and auth.ErrDisabled.
func (d *Desk) Collect(kind, code, verifier string) (records.User, error) {
	if _, ok := d.Enabled(kind); !ok {
		return records.User{}, ErrUnknown
	}
	var a directories.Arrival
	if err := d.sealer.Open(useCollect, code, &a); err != nil || a.Kind != kind || !directories.Proves(verifier, a.Challenge) {
		return records.User{}, auth.ErrWrongPassword
	}
	u, ok := d.State.Users.Get(a.UserID)
	switch {
	case !ok:
		return records.User{}, auth.ErrWrongPassword
	case u.Value.Disabled:
		return records.User{}, auth.ErrDisabled
	}
	return u.Value, nil
}

// Public is an error as those learn of it who are not logged in: where a directory is, and what it says, is for administrators.
func Public(err error) error {
	if away, ok := errors.AsType[*directories.UnavailableError](err); ok {
		reason := "does not answer as it has to"
		if errors.Is(err, context.DeadlineExceeded) {
			reason = "did not answer in time"
		}
		return errors.New("directory " + away.Kind + " " + reason + ": try again later; the cause is in the server's log, and `drover directories test " + away.Kind + "` shows it to an administrator")
	}
	return err
}
