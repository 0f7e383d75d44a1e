package registration_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/store"
)

func noServerURL(f *fixture) *settings.Settings {
	return settings.New(f.state.Settings, func(string) string { return "" }, settings.Defaults{CACerts: caPEM})
}

func TestMachineByToken(t *testing.T) {
	f := setUp(t, nil)
	token := bearer(t, f.register(t, "lab", nil))
	for _, c := range []struct {
		name, token string
		ok          bool
	}{
		{"right", token, true},
		{"one character less", token[:len(token)-1], false},
		{"other machine", strings.Replace(token, machineHash, "000000000000", 1), false},
		{"other namespace", strings.Replace(token, "fleet-default", "x", 1), false},
		{"no prefix", strings.TrimPrefix(token, "drover-machine."), false},
		{"registration token", f.token["lab"], false},
		{"hash", f.machine(t).TokenHash, false},
		{"empty", "", false},
		{"dots", "drover-machine...", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			key, ok := f.MachineByToken(c.token)
			if ok != c.ok || ok && key != machineKey {
				t.Errorf("%q, %v; want %v", key, ok, c.ok)
			}
		})
	}
}

// TestTokensRetire follows one host through three registrations.
func TestTokensRetire(t *testing.T) {
	f := setUp(t, nil)
	works := func(token string) bool {
		_, ok := f.MachineByToken(token)
		return ok
	}
	first := bearer(t, f.register(t, "lab", nil))
	if !works(first) {
		t.Fatal("the first token does not work")
	}
	lost := bearer(t, f.register(t, "lab", nil))
	third := bearer(t, f.register(t, "lab", nil))
	if !works(first) {
		t.Error("two registrations whose answers nobody used ended the token in use")
	}
	if works(lost) {
		t.Error("a token that a later registration replaced works")
	}
	if !works(third) {
		t.Fatal("the newest token does not work")
	}
	if works(first) {
		t.Error("the previous token works although the new one was used")
	}

	ended := make(chan struct{})
	stop := f.state.Machines.Observe(func(e store.Event[records.Machine]) {
		if e.Value.PreviousTokenHash == "" {
			close(ended)
		}
	})
	defer stop()
	ctx, cancel := context.WithCancel(t.Context())
	_, wait := reconcile.Begin(ctx, f.Worker(), slog.New(slog.DiscardHandler))
	<-ended
	for deadline := time.Now().Add(time.Minute); len(f.Worker().Keys()) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a token that the store has ended is still kept in memory")
		}
	}
	cancel()
	wait()
	fresh := registration.New(registration.Options{State: f.state, Settings: f.settings})
	if _, ok := fresh.MachineByToken(first); ok {
		t.Error("the previous token works on another server")
	}
	if _, ok := fresh.MachineByToken(third); !ok {
		t.Error("the newest token does not work on another server")
	}
}

func TestNewToken(t *testing.T) {
	f := setUp(t, nil)
	c := records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "lab"}, ID: "c-m-lab00000"}
	a, b := registration.NewToken(c, "x", f.clock.Now()), registration.NewToken(c, "x", f.clock.Now())
	if a.Token == b.Token || len(a.Token) != 54 || strings.Trim(a.Token, "bcdfghjklmnpqrstvwxz2456789") != "" {
		t.Errorf("tokens %q and %q", a.Token, b.Token)
	}
	if a.Key() != "c-m-lab00000/x" || a.ClusterNamespace != "fleet-default" || a.ClusterName != "lab" || !a.Expires.IsZero() || !a.Created.Equal(f.clock.Now()) {
		t.Errorf("token record %+v", a)
	}
}
