package route

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// TestAChangeIsDecidedOnWhatOthersHaveChanged: what another server has written is there before a user's rights are looked
// at; where that cannot be known nothing is changed, and reading goes on.
func TestAChangeIsDecidedOnWhatOthersHaveChanged(t *testing.T) {
	t.Parallel()
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	if _, err := st.Users.Create(t.Context(), "u-ann", records.User{ID: "u-ann", Username: "ann"}); err != nil {
		t.Fatal(err)
	}
	a := auth.New(st, time.Now, slog.New(slog.DiscardHandler))
	token, _, err := a.IssueToken(t.Context(), records.Token{Name: "token-ann12", UserID: "u-ann"})
	if err != nil {
		t.Fatal(err)
	}
	served, asked := 0, 0
	var arrives func(context.Context) error
	table := NewTable(&Env{
		Auth: a, Origin: norman.Origin{ServerURL: func() string { return "https://drover.example" }}, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		CatchUp: func(ctx context.Context) error { asked++; return arrives(ctx) },
	}, []Row{{"*", "/thing", Login(), func(*Call) (Answer, error) { served++; return Answer{Status: http.StatusOK}, nil }}})
	ask := func(method, token string) int {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, "/thing", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		table.ServeHTTP(w, r)
		return w.Code
	}
	disable := func(ctx context.Context) error {
		_, err := st.Users.Modify(ctx, "u-ann", func(u records.User) (records.User, error) { u.Disabled = true; return u, nil })
		return err
	}
	for _, step := range []struct {
		what, method, token string
		arrives             func(context.Context) error
		status, served      int
		asked               int
	}{
		{"a change", http.MethodPost, token, func(context.Context) error { return nil }, 200, 1, 1},
		{"reading", http.MethodGet, token, func(context.Context) error { return errors.New("etcd is away") }, 200, 1, 0},
		{"a change while etcd is away", http.MethodDelete, token, func(context.Context) error { return errors.New("etcd is away") }, 503, 0, 1},
		{"a bad token", http.MethodPost, "token-ann12:wrong", func(context.Context) error { return nil }, 401, 0, 0},
		{"a change by somebody whom another server has disabled", http.MethodPut, token, disable, 401, 0, 1},
	} {
		served, asked, arrives = 0, 0, step.arrives
		if status := ask(step.method, step.token); status != step.status || served != step.served || asked != step.asked {
			t.Errorf("%s: status %d, served %d, asked %d; want %d, %d, %d", step.what, status, served, asked, step.status, step.served, step.asked)
		}
	}
}
