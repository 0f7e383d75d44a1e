package systemd

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/test/skips"
)

// fake is a manager that can be restarted: connections of an earlier life then fail.
type fake struct {
	life, opened, closed int
	down                 error
	hangs                bool
}

type fakeConn struct {
	*fake
	of int
}

func (f *fake) open(ctx context.Context) (manager, error) {
	if f.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if f.down != nil {
		return nil, f.down
	}
	f.opened++
	return fakeConn{f, f.life}, nil
}

func (c fakeConn) property(_ context.Context, unit, name string) (string, error) {
	if c.of != c.life || c.down != nil {
		return "", errors.New("connection closed")
	}
	return map[string]string{"ActiveState": "active", "SubState": "running"}[name] + " " + unit, nil
}

func (c fakeConn) Close() { c.closed++ }

func TestUnitsOfAManagerThatIsRestarted(t *testing.T) {
	f := &fake{}
	u := newUnits(f.open)
	ask := func() error {
		t.Helper()
		active, sub, err := u.State(t.Context(), "k3s.service")
		if err == nil && (active != "active k3s.service" || sub != "running k3s.service") {
			t.Errorf("%q %q", active, sub)
		}
		return err
	}
	if f.opened != 0 {
		t.Error("opened before anybody asked")
	}
	for range 3 {
		if err := ask(); err != nil || f.opened != 1 {
			t.Fatalf("%v, opened %d times", err, f.opened)
		}
	}
	f.life++ // restarted between two questions: no caller notices
	if err := ask(); err != nil || f.opened != 2 || f.closed != 1 {
		t.Fatalf("%v, opened %d, closed %d", err, f.opened, f.closed)
	}
	f.life++
	f.down = errors.New("no such socket")
	for range 2 {
		if err := ask(); err == nil || err.Error() != "ask systemd for k3s.service: no such socket" {
			t.Fatalf("error %v", err)
		}
	}
	f.down = nil
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	u.Close()
	u.Close()
	if f.opened != f.closed {
		t.Errorf("opened %d, closed %d", f.opened, f.closed)
	}
}

// TestAManagerThatHangs holds a question up no longer than the asker's patience, and those
// who wait behind it neither.
func TestAManagerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnits((&fake{hangs: true}).open)
		errs := make(chan error)
		began := time.Now()
		for range 3 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, _, err := u.State(ctx, "a.service")
				errs <- err
			}()
		}
		for range 3 {
			if err := <-errs; !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// TestUnitsOfThisHost asks the real manager where there is one.
func TestUnitsOfThisHost(t *testing.T) {
	if _, err := os.Stat("/run/systemd/private"); err != nil || os.Getuid() != 0 {
		skips.Skip(t, "no systemd to ask")
	}
	u := NewUnits()
	defer u.Close()
	for unit, want := range map[string]string{"-.slice": "active", "no-such-unit-of-drover.service": "inactive"} {
		if active, _, err := u.State(t.Context(), unit); err != nil || active != want {
			t.Errorf("%s is %q, %v", unit, active, err)
		}
	}
}
