// Tokens that are kept from one kubectl to the next: one file for each server, cluster and login, which only
// its owner can read. A file with any fault counts as absent.

package execplugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/plans/durable"
)

// maxKept bounds the file of a token.
const maxKept = 64 << 10

// kept is a token with what it takes to know when it is to be renewed and to end it.
type kept struct {
	Server string `json:"server"`
	// Login is the name of the token by which this one was made.
	Login string    `json:"login"`
	Name  string    `json:"name"`
	Token string    `json:"token"`
	Made  time.Time `json:"made"`
	// Expires is its end, zero for never.
	Expires time.Time `json:"expires,omitzero"`
	// Asked is the process that asked for it last.
	Asked int `json:"asked"`
}

// renewal is when to make another: a tenth of its life before its end, an hour at most. Zero is never.
func (t kept) renewal() time.Time {
	if t.Expires.IsZero() {
		return time.Time{}
	}
	return t.Expires.Add(-min(t.Expires.Sub(t.Made)/10, time.Hour))
}

// good says that it need not be renewed. A token that seems to be made in the future was not made by this clock.
func (t kept) good(now time.Time) bool {
	renew := t.renewal()
	return t.Token != "" && !t.Made.After(now.Add(time.Minute)) && (renew.IsZero() || now.Before(renew))
}

// place is where a token is kept.
type place struct{ dir, file string }

// placeOf is the place of the tokens of one login for one cluster.
func placeOf(dir, server, cluster, login string) place {
	sum := sha256.Sum256([]byte(server + "\n" + cluster + "\n" + login))
	return place{dir, filepath.Join(dir, hex.EncodeToString(sum[:16])+".json")}
}

// lock keeps others that want the same token waiting, so that ten kubectl that begin at once make one token.
func (p place) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, fmt.Errorf("keep a token: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(p.dir, "lock"), os.O_CREATE|os.O_RDWR|durable.NoFollow, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep a token: %w", err)
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := durable.TryLock(f)
		switch {
		case err == nil:
			return func() { _ = f.Close() }, nil // which unlocks it
		case !errors.Is(err, durable.ErrLocked):
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
}

// read is what is kept, if anything that can be trusted is.
func (p place) read() (kept, bool) {
	f, err := os.OpenFile(p.file, os.O_RDONLY|durable.NoFollow, 0)
	if err != nil {
		return kept{}, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return kept{}, false
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKept))
	var t kept
	if err != nil || json.Unmarshal(text, &t) != nil {
		return kept{}, false
	}
	return t, true
}

// write keeps a token, and drops those that have ended. It is not synced: one that is lost is made again.
func (p place) write(t kept, now time.Time) error {
	text, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("keep a token: %w", err)
	}
	f, err := os.CreateTemp(p.dir, ".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("keep a token: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), p.file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("keep a token: %w", err)
	}
	return eachKept(p.dir, func(at place, one kept) error {
		if one.Expires.IsZero() || one.Expires.After(now) {
			return nil
		}
		return os.Remove(at.file)
	})
}

// eachKept does something with each token that is kept.
func eachKept(dir string, do func(place, kept) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the tokens that are kept: %w", err)
	}
	var all []error
	for _, e := range entries {
		at := place{dir, filepath.Join(dir, e.Name())}
		if t, ok := at.read(); ok && strings.HasSuffix(e.Name(), ".json") {
			all = append(all, do(at, t))
		}
	}
	return errors.Join(all...)
}

// Forget ends the tokens that were made by a login, and forgets them; those that the server could not be asked to end are
// forgotten, too, and the error says so.
func Forget(ctx context.Context, c *client.Client, dir string) error {
	return eachKept(dir, func(at place, t kept) error {
		if t.Server != c.Server() || t.Login != c.TokenName() {
			return nil
		}
		err := c.Send(ctx, http.MethodDelete, "/v3/tokens/"+url.PathEscape(t.Name), nil, nil)
		if errors.Is(err, client.ErrNotFound) {
			err = nil
		}
		if err != nil {
			err = fmt.Errorf("end token %s of kubectl: %w", t.Name, err)
		}
		return errors.Join(err, os.Remove(at.file))
	})
}
