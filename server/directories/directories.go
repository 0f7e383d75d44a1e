// Package directories is what this server knows of outside directories: how they are configured, what they say of people, who
// of them is let in, and what they are called here. It makes no requests: the packages below it do.
//
// Wire source: names of principals and kinds as rancher/rancher has them in pkg/auth/providers; the IDs of users as
// pkg/user/manager makes them.
package directories

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/server/records"
)

// Bounds of every request to a directory.
const (
	// Timeout is how long one login or one look may take, all its requests together.
	Timeout = 10 * time.Second
	// MaxRead is how many groups of a person are read, and MaxGroups how many of these are kept.
	MaxRead   = 10_000
	MaxGroups = 1_000
	// MaxPrincipal is the longest name of a person or a group, in bytes; a binding takes no longer one.
	MaxPrincipal = 512
)

// Person is a user as a directory knows them.
type Person struct {
	// Principal is "<kind>_user://<what the directory calls them for good>".
	Principal string
	// Login and Name are what they log in with and what people call them; both may be empty.
	Login, Name string
	// Groups are principals, in no order.
	Groups []string
	// Token is by what the directory is asked about them when they are away; empty where it is asked by its own account, or not.
	Token string
}

// Passwords is a directory that checks passwords.
type Passwords interface {
	// Login is whom a name and a password belong to; the password is not empty. Its errors are ErrWrongPassword and *UnavailableError.
	Login(ctx context.Context, username, password string) (Person, error)
	// Find is a user by their principal. Its errors are ErrGone and *UnavailableError.
	Find(ctx context.Context, principal string) (Person, error)
	// Search finds people and groups whose login name or name begins with a text, at most so many of each. Its errors are
	// *UnavailableError.
	Search(ctx context.Context, text string, want Sought, most int) ([]Found, error)
	// Check says whether the directory answers to the server's own account.
	Check(ctx context.Context) error
}

// Sought is what is searched for.
type Sought int

// What may be searched for; the zero value is both.
const (
	Anybody Sought = iota
	People
	Groups
)

// Found is a user, or a group, as a directory has them.
type Found struct {
	Principal   string
	Login, Name string
	Group       bool
}

// Trip is one login through a browser: what the directory has to give back, and what it must not learn.
type Trip struct {
	// State comes back in the URL, Nonce in the ID token; Verifier proves that it is this server that comes for the token.
	State, Nonce, Verifier string
	// Redirect is the URL of this server that the browser comes back to.
	Redirect string
}

// Browsers is a directory that people log in at with a browser.
type Browsers interface {
	// Begin is the URL that a browser is sent to.
	Begin(ctx context.Context, t Trip) (string, error)
	// Finish is whom the code of a browser that came back belongs to. Its errors are *DeniedError and *UnavailableError.
	Finish(ctx context.Context, t Trip, code string) (Person, error)
	// Again is the person whom a Person.Token was given for. Its errors are ErrLapsed and *UnavailableError.
	Again(ctx context.Context, token string) (Person, error)
	// Check says whether the directory answers.
	Check(ctx context.Context) error
}

var (
	// ErrWrongPassword says that name and password do not belong together.
	ErrWrongPassword = errors.New("the directory does not know this name with this password")
	// ErrGone says that the directory does not know a user any more, or has shut them out.
	ErrGone = errors.New("the directory does not know them any more")
	// ErrNothingToAsk says that no directory can be asked about a user.
	ErrNothingToAsk = errors.New("no directory can be asked about this user: they have no principal of one that is enabled, or it tells nothing until they log in")
	// ErrLapsed says that the directory tells nothing about a user until they log in again.
	ErrLapsed = errors.New("the directory tells nothing more about them until they log in again")
)

// UnavailableError says that a directory does not answer, or not as it has to.
type UnavailableError struct {
	Kind string
	// Doing is what was asked of it.
	Doing string
	Err   error
}

func (e *UnavailableError) Error() string {
	reason := e.Err.Error()
	if errors.Is(e.Err, context.DeadlineExceeded) {
		reason = fmt.Sprintf("no answer within %d s", int(Timeout.Seconds()))
	}
	return fmt.Sprintf("directory %s: %s: %.500s", e.Kind, e.Doing, reason)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// DeniedError says why no user is let in by what a browser brought back.
type DeniedError struct{ Reason string }

func (e *DeniedError) Error() string { return e.Reason }

// Denied is a *DeniedError.
func Denied(format string, args ...any) error { return &DeniedError{fmt.Sprintf(format, args...)} }

// UserOf and GroupOf are principals of a kind; a GitHub has two sorts of groups, see server/directories/web.
func UserOf(kind, id string) string  { return kind + "_user://" + id }
func GroupOf(kind, id string) string { return kind + "_group://" + id }

// KindOf is the kind that a principal is of; false for one of this server itself, or of no directory.
func KindOf(principal string) (string, bool) {
	scheme, _, ok := strings.Cut(principal, "://")
	kind, _, sorted := strings.Cut(scheme, "_")
	return kind, ok && sorted && slices.Contains(Kinds(), kind)
}

// Of says whether a principal is of a kind.
func Of(kind, principal string) bool {
	found, ok := KindOf(principal)
	return ok && found == kind
}

// Kinds are all kinds, in order.
func Kinds() []string {
	return []string{records.ActiveDirectory, records.GenericOIDC, records.GitHub, records.OpenLDAP}
}

// ByPassword says whether people of a kind log in with a password, and not with a browser.
func ByPassword(kind string) bool {
	return kind == records.OpenLDAP || kind == records.ActiveDirectory
}

// UserID is the ID of the user who is made for a principal, the same on every server.
func UserID(principal string) string {
	sum := sha256.Sum256([]byte(principal))
	return "u-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:10]
}

// Admits says whether a user may log in. member says that they have a role in a cluster or a project.
func Admits(d records.Directory, p Person, member bool) bool {
	listed := slices.Contains(d.Allowed, p.Principal) || slices.ContainsFunc(p.Groups, func(g string) bool { return slices.Contains(d.Allowed, g) })
	switch d.Access {
	case records.Unrestricted, "":
		return true
	case records.Restricted:
		return listed || member
	case records.Required:
		return listed
	}
	return false
}

// Kept are the groups that are kept of a user, in order and once each: all of them up to MaxGroups, before others those that
// matter, which something here names. Names that are no principals of the kind, or too long ones, are left out.
func Kept(kind string, groups []string, matters func(principal string) bool) (kept []string, left int) {
	var others []string
	all := slices.Clone(groups)
	slices.Sort(all)
	all = slices.Compact(all)
	for _, g := range all {
		switch {
		case len(g) > MaxPrincipal || !Of(kind, g) || strings.ContainsFunc(g, func(r rune) bool { return r < ' ' || r == 0x7f }):
		case matters(g):
			kept = append(kept, g)
		default:
			others = append(others, g)
		}
	}
	kept = append(kept, others...)
	if len(kept) > MaxGroups {
		kept = kept[:MaxGroups]
	}
	left = len(all) - len(kept)
	slices.Sort(kept)
	return kept, left
}

// Merged are the groups of a user after a directory was asked: those of other directories stay.
func Merged(kind string, before, now []string) []string {
	merged := slices.DeleteFunc(slices.Clone(before), func(g string) bool { return Of(kind, g) })
	merged = append(merged, now...)
	slices.Sort(merged)
	return slices.Compact(merged)
}

// TypeOf is the type of a kind of directories in the public API.
func TypeOf(kind string) string {
	return map[string]string{
		"local": "localProvider", records.OpenLDAP: "openLdapProvider", records.ActiveDirectory: "activeDirectoryProvider",
		records.GenericOIDC: "genericOIDCProvider", records.GitHub: "githubProvider",
	}[kind]
}

// PathOf is where a kind of directories is in the public API.
func PathOf(kind string) string { return "/v3-public/" + TypeOf(kind) + "s/" + kind }
