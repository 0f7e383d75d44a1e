// Asking the service manager for the state of units.
//
// Wire source: org.freedesktop.systemd1(5), interface Unit, over the manager's own socket,
// so that no D-Bus daemon has to run.

package systemd

import (
	"context"
	"fmt"

	"github.com/coreos/go-systemd/v22/dbus"
)

// Units asks for states of units. Its methods may be called at the same time. The
// connection is opened by the first question and anew when the manager was restarted.
type Units struct {
	open func(ctx context.Context) (manager, error)
	turn chan struct{} // held by who uses conn
	conn manager       // nil when there is none
}

// manager is a connection to the service manager.
type manager interface {
	property(ctx context.Context, unit, name string) (string, error)
	Close()
}

// NewUnits asks the manager of this host. It must be closed.
func NewUnits() *Units { return newUnits(connect) }

func newUnits(open func(ctx context.Context) (manager, error)) *Units {
	return &Units{open: open, turn: make(chan struct{}, 1)}
}

// State is the unit's ActiveState and SubState, for example "activating" and "auto-restart".
// A unit that does not exist is "inactive" and "dead". The errors are those of D-Bus and of the context.
func (u *Units) State(ctx context.Context, unit string) (active, sub string, err error) {
	select {
	case u.turn <- struct{}{}:
		defer func() { <-u.turn }()
	case <-ctx.Done():
		return "", "", fmt.Errorf("ask systemd for %s: %w", unit, ctx.Err())
	}
	old := u.conn != nil
	active, sub, err = u.ask(ctx, unit)
	if err != nil && old && ctx.Err() == nil { // the manager may have been restarted since
		active, sub, err = u.ask(ctx, unit)
	}
	if err != nil {
		return "", "", fmt.Errorf("ask systemd for %s: %w", unit, err)
	}
	return active, sub, nil
}

// ask asks once. A connection with a fault is given up.
func (u *Units) ask(ctx context.Context, unit string) (active, sub string, err error) {
	if u.conn == nil {
		if u.conn, err = u.open(ctx); err != nil {
			u.conn = nil
			return "", "", err
		}
	}
	active, err = u.conn.property(ctx, unit, "ActiveState")
	if err == nil {
		sub, err = u.conn.property(ctx, unit, "SubState")
	}
	if err != nil {
		u.conn.Close()
		u.conn = nil
	}
	return active, sub, err
}

// Close gives up the connection.
func (u *Units) Close() {
	u.turn <- struct{}{}
	defer func() { <-u.turn }()
	if u.conn != nil {
		u.conn.Close()
		u.conn = nil
	}
}

// bus is the real connection.
type bus struct {
	*dbus.Conn
	end context.CancelFunc
}

// connect opens a connection that outlives the context, which bounds the opening alone.
func connect(ctx context.Context) (manager, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	conn, err := dbus.NewSystemdConnectionContext(life)
	if !stop() && err == nil {
		conn.Close()
		err = ctx.Err()
	}
	if err != nil {
		end()
		return nil, err
	}
	return bus{conn, end}, nil
}

func (b bus) property(ctx context.Context, unit, name string) (string, error) {
	p, err := b.GetUnitPropertyContext(ctx, unit, name)
	if err != nil {
		return "", err
	}
	text, ok := p.Value.Value().(string)
	if !ok {
		return "", fmt.Errorf("%s is %s and no text", name, p.Value.String())
	}
	return text, nil
}

func (b bus) Close() {
	b.Conn.Close()
	b.end()
}
