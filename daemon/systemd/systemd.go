// Package systemd talks to the service manager that started the agent: sd_notify and
// the watchdog. Unlike the usual client it never waits for a manager that does not
// read, because an agent must not hang on being polite.
//
// Wire source: sd_notify(3), sd_watchdog_enabled(3).
package systemd

import (
	"fmt"
	"net"
	"strconv"
	"time"
)

// writeLimit is how long a manager may take to accept a message.
const writeLimit = time.Second

// Notify sends a state such as "READY=1" to the socket of the environment (env is
// os.Getenv). Without one it does nothing. The error is that of the socket.
func Notify(env func(string) string, state string) error {
	socket := env("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// Watchdog is the time within which the manager wants signs of life of the process pid;
// 0 is never. The error says that the environment has no number.
func Watchdog(env func(string) string, pid int) (time.Duration, error) {
	text := env("WATCHDOG_USEC")
	if text == "" {
		return 0, nil
	}
	if of := env("WATCHDOG_PID"); of != "" && of != strconv.Itoa(pid) {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > int64(24*time.Hour/time.Microsecond) {
		return 0, fmt.Errorf("WATCHDOG_USEC %.40q is not a number of microseconds", text)
	}
	return time.Duration(n) * time.Microsecond, nil
}
