package answers_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/tunnel/answers"
)

// liar is a server that answers as a test says, and counts what it was let send.
type liar struct {
	*httptest.Server
	sent     atomic.Int64
	requests atomic.Int64
	// open is closed with the test, so that an answer that waits ends.
	open chan struct{}
}

func newLiar(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *liar {
	t.Helper()
	l := &liar{open: make(chan struct{})}
	l.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.requests.Add(1)
		answer(counting{w, l}, r)
	}))
	// The kernel takes megabytes that are not read; what is counted is to be little more than what was.
	l.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if tcp, ok := c.(*net.TCPConn); !ok || tcp.SetWriteBuffer(64<<10) != nil {
			t.Error("the buffer of a connection cannot be set")
		}
		return ctx
	}
	l.Start()
	t.Cleanup(l.Close)
	t.Cleanup(func() { close(l.open) })
	return l
}

type counting struct {
	http.ResponseWriter
	l *liar
}

func (c counting) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.l.sent.Add(int64(n))
	return n, err
}

func (c counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// endless writes text until the other side reads no further.
func endless(w io.Writer, text string) {
	for block := []byte(strings.Repeat(text, 1+(16<<10)/len(text))); ; {
		if _, err := w.Write(block); err != nil {
			return
		}
	}
}

func typed(kind string, answer func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		answer(w)
	}
}

// transport is one to a server of tests, with a bound for all answers.
func transport(t *testing.T, bound answers.Bound, b *answers.Budget) *answers.Transport {
	t.Helper()
	next := &http.Transport{DisableCompression: true, MaxResponseHeaderBytes: answers.HeaderBytes}
	t.Cleanup(next.CloseIdleConnections)
	return &answers.Transport{Next: next, Of: func(*http.Request) answers.Bound { return bound }, From: "the API of harbour", Budget: b}
}

func read(ctx context.Context, over http.RoundTripper, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := (&http.Client{Transport: over}).Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return io.ReadAll(answer.Body)
}

func TestWhatIsTooLargeIsNotRead(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	for _, tc := range []struct {
		name   string
		answer func(http.ResponseWriter, *http.Request)
		bound  answers.Bound
		says   string
		// sends is how much may have been sent at most: what is on the way is in buffers.
		sends int64
	}{
		{"a list without end", typed("application/json", func(w http.ResponseWriter) { endless(w, `{"metadata": {"name": "a"}, "text": "more"}, `) }),
			answers.Bound{What: "a list of nodes", Bytes: most}, "the API of harbour answered a list of nodes with more than 1 MiB", 16 << 20},
		{"one text without end", typed("application/json", func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"a":"`); endless(w, "a") }),
			answers.Bound{What: "a node", Bytes: most}, "answered a node with more than 1 MiB", 16 << 20},
		{"announced", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "99999999") },
			answers.Bound{What: "a node", Bytes: most}, "answered a node with more than 1 MiB", 0},
		{"few bytes that become large", typed("application/json", func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"items":[`); endless(w, "{},") }),
			answers.Bound{What: "a list of nodes", Bytes: most}, "answered a list of nodes with more values in it than 1 MiB may have", 4 << 20},
		{"values in values", typed("application/json", func(w http.ResponseWriter) { endless(w, "[") }),
			answers.Bound{What: "a node", Bytes: most}, "more values in it", 4 << 20},
		{"an event without end", typed("application/json", func(w http.ResponseWriter) {
			for range 100 {
				fmt.Fprintf(w, `{"type": "ADDED", "object": {"text": %q}}`+"\n", strings.Repeat("a", 100_000))
			}
			_, _ = io.WriteString(w, `{"type": "ADDED", "object": {"text": "`)
			endless(w, "\n")
		}), answers.Bound{What: "an event of nodes", Each: most}, "answered an event of nodes with more than 1 MiB", 32 << 20},
		{"no event without end", typed("application/json", func(w http.ResponseWriter) { endless(w, " \n") }),
			answers.Bound{What: "an event of nodes", Each: most}, "answered an event of nodes with more than 1 MiB", 16 << 20},
		{"a refusal without end", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden); endless(w, "no") },
			answers.Bound{What: "a node", Bytes: most}, "answered a node with more than 1 MiB", 16 << 20},
		{"a stream", typed("application/x-tar", func(w http.ResponseWriter) { endless(w, "a") }),
			answers.Bound{What: "a file", Bytes: most, Passed: true}, "answered a file with more than 1 MiB", 16 << 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l, b := newLiar(t, tc.answer), answers.NewBudget(64<<20, time.Minute)
			over, told := transport(t, tc.bound, b), atomic.Int64{}
			over.OnTooLarge = func(*answers.TooLargeError) { told.Add(1) }
			_, err := read(t.Context(), over, l.URL)
			if _, ok := errors.AsType[*answers.TooLargeError](err); !ok || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("the error is %v", err)
			}
			if n := l.sent.Load(); n > tc.sends {
				t.Errorf("%d bytes were sent", n)
			}
			if told.Load() != 1 || b.Taken() != 0 {
				t.Errorf("told %d times, %d bytes are still taken", told.Load(), b.Taken())
			}
		})
	}
}

func TestWhatFitsIsReadWhole(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(map[string]any{"items": strings.Split(strings.Repeat("a\"\\]},", 200), ",")})
	if err != nil {
		t.Fatal(err)
	}
	l := newLiar(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = w.Write(append(text, '\n'))
		}
	})
	size := int64(len(text) + 1)
	b := answers.NewBudget(64<<20, time.Minute)
	for _, bound := range []answers.Bound{{Bytes: 3 * size}, {Each: size, Passed: true}, {Passed: true}, {Bytes: 3 * size, Passed: true}} {
		// The values weigh more than the text: its elements are empty, nearly.
		bound.Bytes, bound.Each = bound.Bytes*32, bound.Each*32
		got, err := read(t.Context(), transport(t, bound, b), l.URL)
		if err != nil || !bytes.Equal(got, bytes.Repeat(append(text, '\n'), 3)) {
			t.Errorf("%+v: %d bytes, %v", bound, len(got), err)
		}
	}
}

func TestNoRedirectIsFollowed(t *testing.T) {
	t.Parallel()
	inside := newLiar(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a secret of the inside") })
	for _, status := range []int{301, 302, 303, 307, 308, 300} {
		l := newLiar(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", inside.URL)
			w.WriteHeader(status)
		})
		_, err := read(t.Context(), transport(t, answers.Bound{Bytes: 1 << 20}, nil), l.URL)
		if e, ok := errors.AsType[*answers.RedirectError](err); !ok || e.Status != status || strings.Contains(e.Error(), inside.URL) {
			t.Errorf("after %d: %v", status, err)
		}
	}
	if n := inside.requests.Load(); n != 0 {
		t.Errorf("%d requests went where a redirect led", n)
	}
}

func TestOtherFormsAreRefused(t *testing.T) {
	t.Parallel()
	for kind, ok := range map[string]bool{
		"application/json": true, "application/json; charset=utf-8": true, "text/plain": true,
		"application/vnd.kubernetes.protobuf": false, "application/yaml": false, "application/cbor": false, "json": false, ";": false,
	} {
		l := newLiar(t, typed(kind, func(w http.ResponseWriter) { _, _ = io.WriteString(w, "{}") }))
		_, err := read(t.Context(), transport(t, answers.Bound{What: "a node", Bytes: 1 << 20}, nil), l.URL)
		if _, refused := errors.AsType[*answers.ContentError](err); refused == ok {
			t.Errorf("%q: %v", kind, err)
		}
	}
}

// TestNothingIsDecompressed: what is small on the way would be large here.
func TestNothingIsDecompressed(t *testing.T) {
	t.Parallel()
	var small bytes.Buffer
	z := gzip.NewWriter(&small)
	_, _ = z.Write(make([]byte, 10<<20))
	_ = z.Close()
	l := newLiar(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(small.Bytes())
	})
	if got, err := read(t.Context(), transport(t, answers.Bound{Bytes: 1 << 20, Passed: true}, nil), l.URL); err != nil || !bytes.Equal(got, small.Bytes()) {
		t.Errorf("%d bytes of %d, %v", len(got), small.Len(), err)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	l := newLiar(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 100 {
			w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("a", 10_000))
		}
	})
	if _, err := read(t.Context(), transport(t, answers.Bound{Bytes: 1 << 20}, nil), l.URL); err == nil || !strings.Contains(err.Error(), "header") {
		t.Errorf("the error is %v", err)
	}
}

// TestSlowBytes: the time is that of the whole answer, however often something comes.
func TestSlowBytes(t *testing.T) {
	t.Parallel()
	first := make(chan struct{})
	l := newLiar(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"items":[`)
		_ = http.NewResponseController(w).Flush()
		close(first)
		for range time.Tick(time.Millisecond) {
			if _, err := io.WriteString(w, " "); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
		}
	})
	_, err := read(t.Context(), transport(t, answers.Bound{What: "a list of nodes", Bytes: 1 << 20, Within: 50 * time.Millisecond}, nil), l.URL)
	if e, ok := errors.AsType[*answers.SlowError](err); !ok || e.Error() != "the API of harbour has not answered a list of nodes whole within 50ms" {
		t.Errorf("the error is %v", err)
	}
	<-first
}

func TestAnswersTogether(t *testing.T) {
	t.Parallel()
	l := newLiar(t, typed("application/json", func(w http.ResponseWriter) { fmt.Fprintf(w, "%q", strings.Repeat("a", 100_000)) }))
	ctx := answers.Together(t.Context(), "all pods", 1<<20)
	over := transport(t, answers.Bound{What: "a list of pods", Bytes: 1 << 20}, nil)
	var err error
	for range 100 {
		if _, err = read(ctx, over, l.URL); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "answered all pods with more than 1 MiB") || l.requests.Load() != 11 {
		t.Errorf("after %d requests: %v", l.requests.Load(), err)
	}
}

func TestWhatAClientKeeps(t *testing.T) {
	t.Parallel()
	l := newLiar(t, typed("application/json", func(w http.ResponseWriter) { fmt.Fprintf(w, "%q", strings.Repeat("a", 100_000)) }))
	over := transport(t, answers.Bound{What: "the kinds that it has", Bytes: 1 << 20, Together: 1 << 20}, nil)
	var err error
	for range 100 {
		if _, err = read(t.Context(), over, l.URL); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "answered the kinds that it has, again and again, with more than 1 MiB") || l.requests.Load() != 11 {
		t.Errorf("after %d requests: %v", l.requests.Load(), err)
	}
}

// TestOneBudgetForAll has many answer at once with as much as each may, and looks how much of it is read at the same time.
func TestOneBudgetForAll(t *testing.T) {
	t.Parallel()
	const servers, most, each = 50, 4 << 20, 2 << 20
	b := answers.NewBudget(most, 50*time.Millisecond)
	var highest atomic.Int64
	var all sync.WaitGroup
	var read50, busy, other atomic.Int64
	for range servers {
		l := newLiar(t, typed("application/json", func(w http.ResponseWriter) { fmt.Fprintf(w, "%q", strings.Repeat("a", each-2)) }))
		over := transport(t, answers.Bound{What: "a list of nodes", Bytes: each}, b)
		over.Next = watching{over.Next, func() {
			for now := b.Taken(); ; {
				if was := highest.Load(); now <= was || highest.CompareAndSwap(was, now) {
					return
				}
			}
		}}
		all.Go(func() {
			// As a client that asks for one page: the context ends when it was decoded.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := read(ctx, over, l.URL)
			switch _, refused := errors.AsType[*answers.BusyError](err); {
			case err == nil:
				read50.Add(1)
			case refused:
				busy.Add(1)
			default:
				other.Add(1)
				t.Error(err)
			}
		})
	}
	all.Wait()
	// Small answers and the beginning of large ones are read all the same.
	if h := highest.Load(); h > most+servers*(256<<10) || h < each {
		t.Errorf("%d bytes were read at the same time, %d are there", h, most)
	}
	t.Logf("%d answers were read, %d refused; at most %d bytes at once", read50.Load(), busy.Load(), highest.Load())
	// What waits for the end of a context that has ended is given back soon.
	for b.Taken() != 0 {
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("%d bytes are still taken", b.Taken())
		}
	}
}

// watching calls f after each read of an answer.
type watching struct {
	http.RoundTripper
	f func()
}

func (w watching) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := w.RoundTripper.RoundTrip(r)
	if err == nil {
		answer.Body = watched{answer.Body, w.f}
	}
	return answer, err
}

type watched struct {
	io.ReadCloser
	f func()
}

func (w watched) Read(p []byte) (int, error) {
	w.f()
	return w.ReadCloser.Read(p)
}

// TestASmallAnswerWaitsForNobody: an ordinary cluster is asked while others take all there is.
func TestASmallAnswerWaitsForNobody(t *testing.T) {
	t.Parallel()
	b := answers.NewBudget(1<<20, time.Nanosecond)
	large := newLiar(t, typed("application/json", func(w http.ResponseWriter) { fmt.Fprintf(w, "%q", strings.Repeat("a", 1<<20-2)) }))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, large.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport(t, answers.Bound{Bytes: 1 << 20}, b).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.ReadAll(answer.Body); err != nil || b.Taken() != 1<<20 {
		t.Fatalf("%d bytes are taken: %v", b.Taken(), err)
	}
	ordinary := newLiar(t, typed("application/json", func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"gitVersion": "v1.34.4"}`) }))
	if _, err := read(t.Context(), transport(t, answers.Bound{Bytes: 1 << 20}, b), ordinary.URL); err != nil {
		t.Errorf("a small answer: %v", err)
	}
	_, err = read(t.Context(), transport(t, answers.Bound{What: "a list of nodes", Bytes: 1 << 20}, b), large.URL)
	if e, ok := errors.AsType[*answers.BusyError](err); !ok || !strings.Contains(e.Error(), "take all 1 MiB") {
		t.Errorf("a large one: %v", err)
	}
	if answers.Refused(fmt.Errorf("list: %w", err)) == nil || answers.Refused(net.ErrClosed) != nil {
		t.Error("the cause is not found in what libraries make of it")
	}
}
