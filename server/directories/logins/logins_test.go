package logins

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// TestCollect: a code is for the client that began the login, at the directory by which they came, for as long as their user may log in.
func TestCollect(t *testing.T) {
	const verifier = "a verifier that only the command line knows, of fifty bytes"
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	d, err := New(Options{State: st, Secret: "shared by all servers", Now: func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for kind, disabled := range map[string]bool{records.GitHub: false, records.GenericOIDC: false, records.OpenLDAP: true} {
		if _, err := st.Directories.Create(t.Context(), kind, records.Directory{Kind: kind, Disabled: disabled}); err != nil {
			t.Fatal(err)
		}
	}
	for id, disabled := range map[string]bool{"u-ann": false, "u-ben": true} {
		if _, err := st.Users.Create(t.Context(), id, records.User{ID: id, Username: id, Disabled: disabled}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		by, use, user, kind, verifier string
		late                          time.Duration
		want                          error
	}{
		"as it began":          {records.GitHub, useCollect, "u-ann", records.GitHub, verifier, 0, nil},
		"at another directory": {records.GitHub, useCollect, "u-ann", records.GenericOIDC, verifier, 0, auth.ErrWrongPassword},
		"at one that is off":   {records.OpenLDAP, useCollect, "u-ann", records.OpenLDAP, verifier, 0, ErrUnknown},
		"by somebody else":     {records.GitHub, useCollect, "u-ann", records.GitHub, verifier + "x", 0, auth.ErrWrongPassword},
		"for another thing":    {records.GitHub, useJourney, "u-ann", records.GitHub, verifier, 0, auth.ErrWrongPassword},
		"late":                 {records.GitHub, useCollect, "u-ann", records.GitHub, verifier, 2 * toCollect, auth.ErrWrongPassword},
		"of who is disabled":   {records.GitHub, useCollect, "u-ben", records.GitHub, verifier, 0, auth.ErrDisabled},
		"of who is gone":       {records.GitHub, useCollect, "u-gone", records.GitHub, verifier, 0, auth.ErrWrongPassword},
	} {
		began := now
		code, err := d.sealer.Seal(c.use, directories.Arrival{Kind: c.by, UserID: c.user, Challenge: directories.Digest(verifier)}, toCollect)
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(c.late)
		u, err := d.Collect(c.kind, code, c.verifier)
		if now = began; !errors.Is(err, c.want) || (err == nil) != (u.ID != "") {
			t.Errorf("%s: %q, %v, want %v", name, u.ID, err, c.want)
		}
	}
}
