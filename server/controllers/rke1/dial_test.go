package rke1

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/drover-project/drover/rke1/dial"
)

func TestConfirm(t *testing.T) {
	open := func(conn net.Conn, within time.Duration) (net.Conn, error) {
		return dial.Open(t.Context(), func(context.Context, string, string) (net.Conn, error) {
			return &tentative{Conn: conn, within: within}, nil
		}, "tcp", "localhost:1")
	}
	echo := func(t *testing.T, conn net.Conn, far net.Conn) {
		t.Helper()
		go func() {
			b := make([]byte, 4)
			io.ReadFull(far, b)
			far.Write(b)
			far.Close()
		}()
		if _, err := io.WriteString(conn, "echo"); err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(conn); err != nil || string(text) != "echo" {
			t.Errorf("%q, %v", text, err)
		}
	}
	t.Run("refused", func(t *testing.T) {
		near, far := net.Pipe()
		far.Close()
		if _, err := open(near, time.Minute); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if _, err := near.Write([]byte("more")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("it is left open: %v", err)
		}
	})
	t.Run("it speaks first", func(t *testing.T) {
		near, far := net.Pipe()
		go func() {
			io.WriteString(far, "hello")
			far.Close()
		}()
		conn, err := open(near, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(conn); err != nil || string(text) != "hello" {
			t.Errorf("%q, %v", text, err)
		}
	})
	t.Run("it waits", func(t *testing.T) {
		near, far := net.Pipe()
		conn, err := open(near, time.Nanosecond)
		if err != nil {
			t.Fatal(err)
		}
		echo(t, conn, far)
	})
	t.Run("nobody asks", func(t *testing.T) {
		near, far := net.Pipe()
		echo(t, &tentative{Conn: near, within: time.Minute}, far)
	})
}
