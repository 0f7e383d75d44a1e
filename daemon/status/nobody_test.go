package status

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

const socketEnv = "TEST_STATUS_SOCKET"

// TestMain asks for the status in the place of the tests when it is given a socket.
func TestMain(m *testing.M) {
	if path := os.Getenv(socketEnv); path != "" {
		os.Exit(ask(path))
	}
	os.Exit(m.Run())
}

func ask(path string) int {
	conn, err := net.Dial("unix", path)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Fprint(conn, "GET /v1/status HTTP/1.0\r\n\r\n")
	fmt.Print(readAll(conn))
	return 0
}

// asNobody asks as a user without rights.
func asNobody(t *testing.T, path string) (string, error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	copied := path + ".test" // the test's own directory is closed to others
	b, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(copied, b, 0o755); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(t.Context(), copied)
	cmd.Dir, cmd.Env = "/", []string{socketEnv + "=" + path}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.Output()
	return string(out), err
}
