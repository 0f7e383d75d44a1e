package route

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// TestWhatIsBoundEnds: what goes on for as long as its caller likes ends with the right to the object that the row is for, and with the
// token, but not with a right to something else.
func TestWhatIsBoundEnds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(ctx context.Context, st *state.State, a *auth.Auth) error
		ends   bool
	}{
		"the right is lost": {func(ctx context.Context, st *state.State, _ *auth.Auth) error {
			return st.Bindings.Delete(ctx, "c-1:crtb-a", 0)
		}, true},
		"the right has become less": {func(ctx context.Context, st *state.State, _ *auth.Auth) error {
			_, err := st.Bindings.Modify(ctx, "c-1:crtb-a", func(b roles.Binding) (roles.Binding, error) { b.Role = "cluster-member"; return b, nil })
			return err
		}, true},
		"the right to another cluster is lost": {func(ctx context.Context, st *state.State, _ *auth.Auth) error {
			return st.Bindings.Delete(ctx, "c-2:crtb-b", 0)
		}, false},
		"the token is revoked": {func(ctx context.Context, _ *state.State, a *auth.Auth) error {
			return a.RevokeToken(ctx, "token-ann12")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = st.Close() })
			if _, err := st.Users.Create(t.Context(), "u-ann", records.User{ID: "u-ann", Username: "ann"}); err != nil {
				t.Fatal(err)
			}
			for key, cluster := range map[string]string{"c-1:crtb-a": "c-1", "c-2:crtb-b": "c-2"} {
				b := roles.Binding{ID: key, Role: "cluster-owner", ClusterID: cluster, Subject: roles.Subject{User: roles.LocalUser("u-ann")}}
				if _, err := st.Bindings.Create(t.Context(), key, b); err != nil {
					t.Fatal(err)
				}
			}
			a := auth.New(st, time.Now, slog.New(slog.DiscardHandler))
			token, _, err := a.IssueToken(t.Context(), records.Token{Name: "token-ann12", UserID: "u-ann"})
			if err != nil {
				t.Fatal(err)
			}
			// A machine's owner alone may update it: a member of the cluster, who sees the cluster still, may not.
			row := Row{"GET", "/thing", Object(auth.Update, auth.Machine), func(call *Call) (Answer, error) {
				before := call.Ctx()
				defer call.Bind(auth.In("c-1", auth.Machine))()
				if err := c.change(t.Context(), st, a); err != nil {
					t.Error(err)
				}
				if ended := call.Ctx().Err() != nil; ended != c.ends { // what follows a change has followed when the change is made
					t.Errorf("it has ended %v, want %v", ended, c.ends)
				}
				if before.Err() != nil {
					t.Error("the request itself has ended")
				}
				return Answer{Status: http.StatusOK}, nil
			}}
			table := NewTable(&Env{
				Auth: a, Origin: norman.Origin{ServerURL: func() string { return "https://drover.example" }}, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
			}, []Row{row})
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/thing", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			if table.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		})
	}
}
