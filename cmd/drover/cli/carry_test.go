package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
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
