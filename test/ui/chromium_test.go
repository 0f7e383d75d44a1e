//go:build e2e

package ui

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/gorilla/websocket"
)

// startChromium starts Chromium with an empty profile and returns the address of a websocket that speaks its DevTools protocol.
//
// It is a workaround: Chromium 156 resets the connection of its own websocket in some of its first seconds, and each step of a test
// then fails with "context canceled". Over a pipe (--remote-debugging-pipe) it does not, but chromedp knows websockets only, so this
// passes messages on. It can go when chromedp speaks over pipes, or when Debian's Chromium keeps its connections.
func startChromium(t *testing.T, flags ...string) (address string) {
	t.Helper()
	theirs, commands, err := os.Pipe()
	must(t, err)
	events, theirEvents, err := os.Pipe()
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "/usr/bin/chromium", append(flags, "--remote-debugging-pipe", "--user-data-dir="+profile(t), "about:blank")...)
	cmd.ExtraFiles = []*os.File{theirs, theirEvents} // descriptors 3 and 4
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var said strings.Builder
	cmd.Stderr = &said
	must(t, cmd.Start())
	must(t, errors.Join(theirs.Close(), theirEvents.Close()))

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer client.Close()
		go func() {
			for {
				_, message, err := client.ReadMessage()
				if err != nil {
					return
				}
				if _, err := commands.Write(append(message, 0)); err != nil {
					return
				}
			}
		}()
		for read := bufio.NewReaderSize(events, 1<<20); ; {
			message, err := read.ReadBytes(0)
			if err != nil || client.WriteMessage(websocket.TextMessage, message[:len(message)-1]) != nil {
				return
			}
		}
	}))
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was killed
		must(t, errors.Join(commands.Close(), events.Close()))
		server.Close()
		if t.Failed() {
			t.Log("Chromium said:", said.String())
		}
	})
	return "ws" + strings.TrimPrefix(server.URL, "http")
}
