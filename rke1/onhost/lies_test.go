package onhost_test

import (
	"archive/tar"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/tunnel/answers"
)

// liar is a host whose Docker engine says who it is, and then what a test has it say.
func liar(t *testing.T, answer func(w http.ResponseWriter, verb string) bool) (*onhost.Host, *atomic.Int64) {
	t.Helper()
	sent := &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.47")
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/_ping" && !answer(counting{w, sent}, path.Base(path.Dir(r.URL.Path))+"/"+path.Base(r.URL.Path)) {
			_, _ = io.WriteString(w, `{"ID": "a"}`)
		}
	}))
	t.Cleanup(server.Close)
	h, err := onhost.Open(t.Context(), "10.0.0.1", "", func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h, sent
}

type counting struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (c counting) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

func endless(w io.Writer, text string) {
	for block := []byte(strings.Repeat(text, 1+(32<<10)/len(text))); ; {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

// TestWhatAHostAnswersIsBounded asks a host each question of the engine's, whose answer has no end.
func TestWhatAHostAnswersIsBounded(t *testing.T) {
	t.Parallel()
	pull := func(ctx context.Context, h *onhost.Host) error {
		_, err := h.Engine().Pull(ctx, "image", "")
		return err
	}
	for _, tc := range []struct {
		name, verb string
		answer     func(w http.ResponseWriter)
		ask        func(ctx context.Context, h *onhost.Host) error
		says       string
	}{
		{"containers", "containers/json", func(w http.ResponseWriter) { endless(w, `[{"Id": "`+strings.Repeat("a", 1000)+`"},`) }, func(ctx context.Context, h *onhost.Host) error {
			_, err := h.Engine().Look(ctx, &nodeconfig.NodeConfig{})
			return err
		}, "the Docker engine of host 10.0.0.1 answered the list of its containers with more"},
		{"containers of nothing", "containers/json", func(w http.ResponseWriter) { endless(w, `[{},`) }, func(ctx context.Context, h *onhost.Host) error {
			_, err := h.Engine().Look(ctx, &nodeconfig.NodeConfig{})
			return err
		}, "answered the list of its containers with more values"},
		{"an image", "image/json", func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"Id": "`); endless(w, "a") }, func(ctx context.Context, h *onhost.Host) error {
			_, err := h.Engine().Image(ctx, "image")
			return err
		}, "answered what it says of images/image with more than 2 MiB"},
		{"a line of a download", "images/create", func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"status": "`); endless(w, "a") }, pull,
			"answered the progress of a download with more than 64 KiB"},
		{"a download", "images/create", func(w http.ResponseWriter) { endless(w, `{"status": "Waiting for the other side"}`+"\n") }, pull,
			"answered the progress of a download with more than 64 MiB"},
		{"an end", "a/wait", func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"Error": {"Message": "`); endless(w, "a") }, func(ctx context.Context, h *onhost.Host) error {
			_, err := h.Run(ctx, onhost.Once{Process: nodeconfig.Process{Name: "once", Image: "image"}})
			return err
		}, "answered what became of a request with more than 2 MiB"},
		{"output", "a/logs", func(w http.ResponseWriter) {
			endless(w, "\x01\x00\x00\x00\x00\x00\x04\x00"+strings.Repeat("a", 1023)+"\n")
		}, func(ctx context.Context, h *onhost.Host) error {
			_, err := h.Logs(ctx, "a", 20)
			return err
		}, "answered the output of a container with more than 16 MiB"},
		{"a piece of output", "a/logs", func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "\x01\x00\x00\x00\xff\xff\xff\xff")
			endless(w, "a")
		}, func(ctx context.Context, h *onhost.Host) error {
			_, err := h.Logs(ctx, "a", 20)
			return err
		}, "answered the output of a container with more than 16 MiB"},
		{"a refusal", "image/json", func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError); endless(w, " ") }, func(ctx context.Context, h *onhost.Host) error {
			_, err := h.Engine().Image(ctx, "image")
			return err
		}, "a message (> 1048576 bytes)"}, // Docker's client reads no more
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, sent := liar(t, func(w http.ResponseWriter, verb string) bool {
				if verb == "image/json" && strings.HasPrefix(tc.verb, "images/") {
					w.WriteHeader(http.StatusNotFound) // so that it is downloaded
					return true
				}
				if verb == tc.verb {
					tc.answer(w)
				}
				return verb == tc.verb
			})
			err := tc.ask(t.Context(), h)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("the error is %v", err)
			}
			if n := sent.Load(); n > 96<<20 {
				t.Errorf("%d bytes were sent", n)
			}
		})
	}
}

// TestAHostLeadsNowhereElse: Docker's API knows no redirects.
func TestAHostLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	var inside atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside.Add(1) }))
	t.Cleanup(other.Close)
	h, _ := liar(t, func(w http.ResponseWriter, verb string) bool {
		if verb == "image/json" || verb == "a/healthz" {
			w.Header().Set("Location", other.URL)
			w.WriteHeader(http.StatusFound)
			return true
		}
		return false
	})
	_, err := h.Engine().Image(t.Context(), "image")
	if e, ok := errors.AsType[*answers.RedirectError](err); !ok || e.Status != http.StatusFound {
		t.Errorf("of Docker's: %v", err)
	}
	err = h.Await(t.Context(), onhost.Check{URL: "http://10.0.0.1:10248/a/healthz", Tries: 1}, func(int, error) {})
	if err == nil || !strings.Contains(err.Error(), "302") {
		t.Errorf("of a health check: %v", err)
	}
	if n := inside.Load(); n != 0 {
		t.Errorf("%d requests went inside", n)
	}
}

// TestAHostSendsTheFileThatItWasAskedFor, and not others with it.
func TestAHostSendsTheFileThatItWasAskedFor(t *testing.T) {
	t.Parallel()
	from, _ := liar(t, func(w http.ResponseWriter, verb string) bool {
		if verb == "a/archive" {
			w.Header().Set("X-Docker-Container-Path-Stat", "e30=")
			archive := tar.NewWriter(w)
			for _, name := range []string{"../other", "one"} {
				_ = archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 4, Mode: 0o4600})
				_, _ = io.WriteString(archive, "data")
			}
			_ = archive.Close()
		}
		return verb == "a/archive"
	})
	e, to := open(t)
	if err := from.Carry(t.Context(), to, onhost.Directory{OnHost: "/opt/rke/etcd-snapshots", Path: "/opt/rke/etcd-snapshots", Image: tools}, "one"); err != nil {
		t.Fatal(err)
	}
	if files := e.Files(); len(files) != 1 || files["/opt/rke/etcd-snapshots/one"].Contents != "data" {
		t.Errorf("on the other host is %+v", files)
	}
}

// FuzzLogs reads the output of a container that a host makes up.
func FuzzLogs(f *testing.F) {
	piece := func(stream byte, text string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{stream, 0, 0, 0}, uint32(len(text))), text...)
	}
	f.Add(append(piece(1, "out\n"), piece(2, "err\n")...))
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xffa"))
	f.Add([]byte("\x03\x00\x00\x00\x00\x00\x00\x01a"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, _ := liar(t, func(w http.ResponseWriter, verb string) bool {
			if verb == "a/logs" {
				_, _ = w.Write(text)
			}
			return verb == "a/logs"
		})
		lines, err := h.Logs(t.Context(), "a", 20)
		if n := len(strings.Join(lines, "\n")); n > len(text) || err != nil && n > 0 {
			t.Errorf("%d bytes of %d: %v", n, len(text), err)
		}
	})
}
