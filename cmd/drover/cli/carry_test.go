package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// carried are a program's connection and what a host sees of it, through a carrier.
func carried(t *testing.T, network, address string) (program interface {
	net.Conn
	CloseWrite() error
}, host net.Conn) {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hosts.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- carrier{
			dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", hosts.Addr().String())
			},
			failed: func(_ net.Conn, err error) { t.Error(err) },
		}.run(ctx, listener)
	}()
	c, err := net.Dial(network, listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if host, err = hosts.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("run() = %v", err)
		}
		c.Close()
		host.Close()
	})
	return c.(interface {
		net.Conn
		CloseWrite() error
	}), host
}

func TestProgramThatOnlySendsNoMoreIsStillAnswered(t *testing.T) {
	for network, address := range map[string]string{"unix": filepath.Join(t.TempDir(), "s"), "tcp": "127.0.0.1:0"} {
		t.Run(network, func(t *testing.T) {
			program, host := carried(t, network, address)
			io.WriteString(program, "question")
			if err := program.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(host); string(got) != "question" || err != nil {
				t.Errorf("the host got %q, %v", got, err)
			}
			io.WriteString(host, "answer")
			host.Close()
			if got, err := io.ReadAll(program); string(got) != "answer" || err != nil {
				t.Errorf("the program got %q, %v", got, err)
			}
		})
	}
}

// A host that says nothing by itself learns that the program is gone.
func TestProgramThatIsGoneEndsTheConnection(t *testing.T) {
	program, host := carried(t, "unix", filepath.Join(t.TempDir(), "s"))
	if err := program.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(host); len(got) > 0 || err != nil {
		t.Errorf("the host got %q, %v", got, err)
	}
	program.Close()
	for {
		// TCP reports the end only to a writer; a connection that is half open takes it all.
		if _, err := host.Write(make([]byte, 64<<10)); err != nil {
			break
		}
	}
}

// TestASignalIsNoEnd: a question that a signal interrupts is asked again, as it says nothing of the program.
func TestASignalIsNoEnd(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(t.TempDir(), "s")})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	program, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	local, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	raw, err := local.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	gone := func() bool {
		signals := 2
		return hungUpBy(func(ends []unix.PollFd, timeout int) (int, error) {
			if signals--; signals >= 0 {
				return -1, unix.EINTR
			}
			return unix.Poll(ends, timeout)
		}, raw)
	}
	if gone() {
		t.Error("a program that sends and takes is gone")
	}
	if err := program.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if gone() {
		t.Error("a program that takes is gone")
	}
	program.Close()
	if !gone() {
		t.Error("a program that has ended is there")
	}
	local.Close()
	if !gone() {
		t.Error("behind a closed connection there is a program")
	}
}
