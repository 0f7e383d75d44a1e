package systemd

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func of(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

func listen(t *testing.T) (*net.UnixConn, func(string) string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, of(map[string]string{"NOTIFY_SOCKET": path})
}

func TestNotify(t *testing.T) {
	c, env := listen(t)
	if err := Notify(env, "READY=1"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, err := c.Read(b)
	if string(b[:n]) != "READY=1" || err != nil {
		t.Errorf("got %q, %v", b[:n], err)
	}
	if err := Notify(of(nil), "READY=1"); err != nil {
		t.Errorf("without a socket: %v", err)
	}
	if err := Notify(of(map[string]string{"NOTIFY_SOCKET": "/nowhere/s"}), "READY=1"); err == nil {
		t.Error("with a socket that is not there: no error")
	}
}

func TestNotifyDoesNotWaitForAManagerThatDoesNotRead(t *testing.T) {
	_, env := listen(t)
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		began := time.Now()
		err := Notify(env, "STATUS=x")
		if err == nil {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("it took %v", d)
		}
		return
	}
	t.Error("the socket never became full")
}

func TestWatchdog(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  map[string]string
		want time.Duration
		bad  bool
	}{
		{"none", nil, 0, false},
		{"a minute", map[string]string{"WATCHDOG_USEC": "60000000"}, time.Minute, false},
		{"ours", map[string]string{"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7"}, time.Minute, false},
		{"of another process", map[string]string{"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, 0, false},
		{"no number", map[string]string{"WATCHDOG_USEC": "soon"}, 0, true},
		{"negative", map[string]string{"WATCHDOG_USEC": "-1"}, 0, true},
		{"too long", map[string]string{"WATCHDOG_USEC": "9223372036854775807"}, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Watchdog(of(tc.env), 7)
			if got != tc.want || (err != nil) != tc.bad {
				t.Errorf("Watchdog() = %v, %v", got, err)
			}
		})
	}
}
