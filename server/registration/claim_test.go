package registration_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
)

// settle has the machine's agent connect, as the controller records it.
func (f *fixture) settle(t *testing.T) {
	t.Helper()
	_, err := f.state.Machines.Modify(t.Context(), machineKey, func(m records.Machine) (records.Machine, error) {
		m.Status.State = records.WaitingForPlan
		m.Status.History = append(m.Status.History, records.Transition{State: records.WaitingForPlan, At: f.clock.Now()})
		return m, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// proof is the header of a host that has a machine token.
func (f *fixture) proof(token string) map[string]string {
	return map[string]string{registration.ProofHeader: registration.Proof(randomid.Hash(token), f.token["lab"])}
}

// TestWhoMayHaveAMachinesPlace: a machine id and a registration token are not enough for the
// place of a machine whose host is at work; its own token is asked for.
func TestWhoMayHaveAMachinesPlace(t *testing.T) {
	const place = "custom-" + machineHash
	for _, c := range []struct {
		name    string
		settled bool
		header  func(f *fixture, token string) map[string]string
		refused string // what the owner sees; empty: the registration is taken
	}{
		{"nobody connected yet, as after a lost answer", false, func(*fixture, string) map[string]string { return nil }, ""},
		{"its token", true, func(f *fixture, token string) map[string]string { return f.proof(token) }, ""},
		{"no proof", true, func(*fixture, string) map[string]string { return nil }, "without this machine's token"},
		{"another token", true, func(f *fixture, token string) map[string]string { return f.proof(token + "x") }, "with a wrong token of this machine"},
		{"a proof for another registration token", true, func(f *fixture, token string) map[string]string {
			return map[string]string{registration.ProofHeader: registration.Proof(randomid.Hash(token), f.token["other"])}
		}, "with a wrong token of this machine"},
		{"the token itself", true, func(_ *fixture, token string) map[string]string {
			return map[string]string{registration.ProofHeader: token}
		}, "with a wrong token of this machine"},
		{"what the store has of it", true, func(_ *fixture, token string) map[string]string {
			return map[string]string{registration.ProofHeader: randomid.Hash(token)}
		}, "with a wrong token of this machine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := setUp(t, nil)
			first := bearer(t, f.register(t, "lab", nil))
			if c.settled {
				f.settle(t)
			}
			a := f.register(t, "lab", c.header(f, first))
			m := f.machine(t)
			if _, ok := f.MachineByToken(first); !ok {
				t.Error("the host's token ended")
			}
			if c.refused == "" {
				if a.Status != http.StatusOK || m.Refused != "" || m.Claim != nil {
					t.Errorf("%d %s, refused %q", a.Status, a.Body, m.Refused)
				}
				return
			}
			if a.Status != http.StatusConflict || !strings.Contains(a.Message, "`drover machines rejoin "+place+"`") {
				t.Errorf("%d %s", a.Status, a.Body)
			}
			if len(a.Body) > 400 { // as much as install.sh prints of it
				t.Errorf("the answer has %d characters", len(a.Body))
			}
			if !strings.HasPrefix(m.Refused, "127.0.0.1/32 asked for this machine's place at 2026-11-21T03:00:00Z "+c.refused) || !strings.Contains(m.Refused, "drover machines rejoin "+place) {
				t.Errorf("the owner sees %q", m.Refused)
			}
			if m.Claim == nil || m.Claim.Source != "127.0.0.1/32" || !m.Claim.At.Equal(f.clock.Now()) {
				t.Errorf("the claim is %+v", m.Claim)
			}
			if again := f.register(t, "lab", f.proof(first)); again.Status != http.StatusOK || f.machine(t).Refused != "" || f.machine(t).Claim != nil {
				t.Errorf("the host itself: %d %s, refused %q", again.Status, again.Body, f.machine(t).Refused)
			}
		})
	}
}

// TestAConnectedMachineIsHeld, also before the controller has seen its agent.
func TestAConnectedMachineIsHeld(t *testing.T) {
	f := setUp(t, nil)
	connected := false
	g := registration.New(registration.Options{State: f.state, Settings: f.settings, Now: f.clock.Now, Watching: func(key string) (time.Time, bool) {
		return time.Time{}, connected && key == machineKey+"-machine-plan"
	}})
	mux := http.NewServeMux()
	g.Routes(mux)
	f.server.Config.Handler = mux
	f.register(t, "lab", nil)
	if a := f.register(t, "lab", nil); a.Status != http.StatusOK {
		t.Errorf("before: %d %s", a.Status, a.Body)
	}
	connected = true
	if a := f.register(t, "lab", nil); a.Status != http.StatusConflict {
		t.Errorf("its agent is connected: %d %s", a.Status, a.Body)
	}
}

// TestAProvenTokenStaysValid: an installation that ends between its registration and the new file
// leaves the old token on the disk, however often that happens.
func TestAProvenTokenStaysValid(t *testing.T) {
	f := setUp(t, nil)
	first := bearer(t, f.register(t, "lab", nil))
	second := bearer(t, f.register(t, "lab", f.proof(first)))
	f.settle(t)
	for range 3 {
		if a := f.register(t, "lab", f.proof(first)); a.Status != http.StatusOK {
			t.Fatalf("with the token on the disk: %d %s", a.Status, a.Body)
		}
	}
	if a := f.register(t, "lab", f.proof(second)); a.Status != http.StatusConflict {
		t.Errorf("with a token that was replaced unused: %d", a.Status)
	}
	third := bearer(t, f.register(t, "lab", f.proof(first)))
	last := f.register(t, "lab", f.proof(third))
	if _, ok := f.MachineByToken(third); !ok || last.Status != http.StatusOK {
		t.Errorf("the token on the disk ended by the proof: %d", last.Status)
	}
}

// TestAnAllowedRegistration is taken once, within its hour.
func TestAnAllowedRegistration(t *testing.T) {
	f := setUp(t, nil)
	f.register(t, "lab", nil)
	f.settle(t)
	if a := f.register(t, "lab", nil); a.Status != http.StatusConflict {
		t.Fatalf("before: %d", a.Status)
	}
	d, err := f.AllowRejoin(t.Context(), machineKey)
	if err != nil || !d.Value.RejoinUntil.Equal(f.clock.Now().Add(time.Hour)) {
		t.Fatalf("until %s, %v", d.Value.RejoinUntil, err)
	}
	if a := f.register(t, "lab", nil); a.Status != http.StatusOK || !f.machine(t).RejoinUntil.IsZero() || f.machine(t).Refused != "" {
		t.Errorf("allowed: %d %s, %+v", a.Status, a.Body, f.machine(t))
	}
	if a := f.register(t, "lab", nil); a.Status != http.StatusConflict {
		t.Errorf("a second time: %d", a.Status)
	}
	if _, err := f.AllowRejoin(t.Context(), machineKey); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Hour)
	if a := f.register(t, "lab", nil); a.Status != http.StatusConflict {
		t.Errorf("an hour later: %d", a.Status)
	}
}

// TestClaimsFillNoStore: a host that asks all the time is written down once a minute.
func TestClaimsFillNoStore(t *testing.T) {
	f := setUp(t, nil)
	f.register(t, "lab", nil)
	f.settle(t)
	f.register(t, "lab", nil)
	before, _ := f.state.Machines.Get(machineKey)
	f.register(t, "lab", nil)
	if after, _ := f.state.Machines.Get(machineKey); after.Revision != before.Revision {
		t.Error("a second claim in the same minute was stored")
	}
	f.clock.Advance(time.Minute)
	f.register(t, "lab", nil)
	if m := f.machine(t); !m.Claim.At.Equal(f.clock.Now()) {
		t.Errorf("a later claim was not stored: %+v", m.Claim)
	}
}
