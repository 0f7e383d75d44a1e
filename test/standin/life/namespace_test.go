// The network namespace the tests run in, and the binary they run.

package life

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const nodeIP = "10.99.0.1"

// binaryPath names the built binary to the process that has a network of its own.
const binaryPath = "STANDIN_TEST_BINARY"

// TestMain builds the binary and runs the tests in a new network namespace that has a loopback with two addresses and
// nothing else. Without root it only says so.
func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if os.Geteuid() != 0 {
		return m.Run() // every test skips itself
	}
	if os.Getenv(binaryPath) != "" {
		if err := loopbackUp(); err != nil {
			fmt.Fprintln(os.Stderr, "set up the network namespace:", err)
			return 1
		}
		return m.Run()
	}
	binary, err := build()
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the stand-in:", err)
		return 1
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), binaryPath+"="+binary)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	runtime.LockOSThread() // the death signal follows the thread
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "run the tests in a network namespace:", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// build makes the binary, or finds it made.
func build() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	out := filepath.Join(cache, "drover-standin")
	cmd := exec.Command("../build.sh", out)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return filepath.Join(out, "k3s-standin"), cmd.Run()
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up); err != nil {
		return err
	}
	second, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := second.SetInet4Addr(net.ParseIP(nodeIP).To4()); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, unix.SIOCSIFADDR, second)
}
