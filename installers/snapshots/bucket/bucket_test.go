package bucket_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/installers/snapshots/bucket"
	"github.com/drover-project/drover/test/s3server"
)

// real is a real server with a bucket, and the way to it.
func realServer(t *testing.T) (*s3server.Server, bucket.Config) {
	t.Helper()
	s, ca, err := s3server.StartTLS(t.Context(), s3server.Options{Module: "../../..", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.MakeBucket("harbour"); err != nil {
		t.Fatal(err)
	}
	return s, bucket.Config{
		Endpoint: s.Endpoint, Bucket: "harbour", Folder: "/a/b/", Region: "us-east-1", AccessKey: s3server.AccessKey, SecretKey: s3server.SecretKey, CA: string(ca),
	}
}

func open(t *testing.T, c bucket.Config) *bucket.Bucket {
	t.Helper()
	b, err := bucket.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

func put(t *testing.T, b *bucket.Bucket, name string, text []byte) error {
	t.Helper()
	return b.Put(t.Context(), name, bytes.NewReader(text), int64(len(text)), sum(text))
}

// TestRealServer puts, lists, gets and removes objects, of one request and of several.
func TestRealServer(t *testing.T) {
	s, c := realServer(t)
	for name, change := range map[string]func(*bucket.Config){
		"a region":     func(*bucket.Config) {},
		"its own one":  func(c *bucket.Config) { c.Region = "" },
		"path style":   func(c *bucket.Config) { c.Lookup = bucket.Path },
		"no folder":    func(c *bucket.Config) { c.Folder = "" },
		"any it shows": func(c *bucket.Config) { c.CA, c.SkipVerify = "", true },
	} {
		t.Run(name, func(t *testing.T) {
			c := c
			change(&c)
			b := open(t, c)
			small, large := []byte("the first"), bytes.Repeat([]byte("0123456789abcdef"), 18<<16)
			for name, text := range map[string][]byte{"one.zip": small, "two.zip": large} {
				if err := put(t, b, name, text); err != nil {
					t.Fatal(err)
				}
				if stored, err := os.ReadFile(s.File(c.Bucket, filepath.Join(c.Folder, name))); err != nil || !bytes.Equal(stored, text) {
					t.Errorf("stored are %d bytes, %v", len(stored), err)
				}
				var got bytes.Buffer
				if o, err := b.Get(t.Context(), name, &got); err != nil || !bytes.Equal(got.Bytes(), text) || o.Sum != sum(text) || o.Changed.IsZero() {
					t.Errorf("got %d bytes, %+v, %v", got.Len(), o, err)
				}
			}
			all, err := b.List(t.Context())
			if err != nil || len(all) != 2 || all[0].Name != "one.zip" || all[0].Size != int64(len(small)) || all[1].Name != "two.zip" {
				t.Errorf("the list is %+v, %v", all, err)
			}
			// The same again is no work, another one is refused.
			if err := put(t, b, "one.zip", small); err != nil {
				t.Error(err)
			}
			if err := put(t, b, "one.zip", []byte("the other")); err == nil || !strings.Contains(err.Error(), "has another one.zip already, of 9 bytes") {
				t.Errorf("another of the name: %v", err)
			}
			for range 2 {
				for _, o := range all {
					if err := b.Remove(t.Context(), o.Name); err != nil {
						t.Fatal(err)
					}
				}
			}
			if is, err := b.Find(t.Context(), "one.zip"); is != nil || err != nil {
				t.Errorf("after its removal: %v, %v", is, err)
			}
			if _, err := b.Get(t.Context(), "one.zip", io.Discard); !bucket.Missing(err) {
				t.Errorf("after its removal: %v", err)
			}
		})
	}
}

// An object that was cut off or changed where it is kept does not count.
func TestDamagedObject(t *testing.T) {
	s, c := realServer(t)
	b := open(t, c)
	text := bytes.Repeat([]byte("data"), 1000)
	for name, damage := range map[string]func(string) error{
		"cut.zip":     func(file string) error { return os.Truncate(file, 100) },
		"flipped.zip": func(file string) error { return os.WriteFile(file, append([]byte("DATA"), text[4:]...), 0o600) },
	} {
		if err := put(t, b, name, text); err != nil {
			t.Fatal(err)
		}
		if err := damage(s.File("harbour", "a/b/"+name)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Get(t.Context(), name, io.Discard); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What cannot be read to its end leaves nothing behind.
func TestInterruptedPut(t *testing.T) {
	_, c := realServer(t)
	b := open(t, c)
	for _, size := range []int64{1 << 20, 40 << 20} {
		from := &failing{rest: size / 2}
		if err := b.Put(t.Context(), "half.zip", from, size, sum(nil)); err == nil || !strings.Contains(err.Error(), "the disk is broken") {
			t.Errorf("%d bytes: %v", size, err)
		}
		if all, err := b.List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("%d bytes: left are %v, %v", size, all, err)
		}
	}
	// The bytes are not those of the checksum: it was written, and is removed.
	if err := b.Put(t.Context(), "other.zip", strings.NewReader("text"), 4, sum([]byte("another"))); err == nil {
		t.Error("other bytes than said are taken")
	}
}

// failing cannot be read beyond some byte.
type failing struct{ rest int64 }

func (f *failing) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > f.rest {
		return 0, errors.New("the disk is broken")
	}
	return len(b), nil
}

// Faults of the way there, each with its way out. No sentence has a key in it.
func TestFaults(t *testing.T) {
	s, good := realServer(t)
	plain, err := s3server.Start(t.Context(), s3server.Options{Module: "../../..", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { plain.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	other, _, err := s3server.Authority(net.IPv4(127, 0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(s.Endpoint)
	for _, tt := range []struct {
		name   string
		change func(*bucket.Config)
		want   string
	}{
		{"refusing", func(c *bucket.Config) { c.Endpoint = nobody }, "nothing listens there"},
		{"slow", func(c *bucket.Config) { c.Endpoint, c.Stall = silent.Addr().String(), 50*time.Millisecond }, "nothing came or went for 50ms"},
		{"a wrong CA", func(c *bucket.Config) { c.CA = string(other) }, "not of an authority that is known here: give the authority's certificate"},
		{"no CA", func(c *bucket.Config) { c.CA = "" }, "not of an authority that is known here"},
		{"a wrong name", func(c *bucket.Config) { c.Endpoint = "localhost:" + port }, "its certificate is not for localhost: name the endpoint"},
		{"no TLS there", func(c *bucket.Config) { c.Endpoint = plain.Endpoint }, "it answers without TLS"},
		{"an unknown name", func(c *bucket.Config) { c.Endpoint = "s3.invalid" }, "the name of the endpoint is not known here"},
		{"a wrong secret key", func(c *bucket.Config) { c.SecretKey = "hunter3" }, "correct the access key and the secret key"},
		{"a wrong access key", func(c *bucket.Config) { c.AccessKey = "nobody" }, "correct the access key and the secret key"},
		{"a wrong bucket", func(c *bucket.Config) { c.Bucket = "lagoon" }, "there is no bucket of this name"},
		{"a wrong region", func(c *bucket.Config) { c.Region = "eu-north-9" }, "region"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := good
			tt.change(&c)
			b := open(t, c)
			_, listed := b.List(t.Context())
			_, found := b.Find(t.Context(), "one.zip")
			for what, err := range map[string]error{"list": listed, "put": put(t, b, "one.zip", []byte("text")), "find": found} {
				if tt.name == "a wrong secret key" || tt.name == "a wrong access key" || tt.name == "a wrong region" {
					if what != "list" && err != nil { // an answer to HEAD has no words
						continue
					}
				}
				if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "bucket "+c.Bucket+"/a/b at "+c.Endpoint) {
					t.Errorf("%s: %v\nwant %q", what, err, tt.want)
				}
				for _, secret := range []string{c.SecretKey, c.AccessKey} {
					if err != nil && strings.Contains(err.Error(), secret) {
						t.Errorf("%s: %v has a key in it", what, err)
					}
				}
			}
		})
	}
}

// A server that is full, or cannot go on, in the middle of a conversation with the real one.
func TestFailingEndpoint(t *testing.T) {
	s, c := realServer(t)
	target := open(t, c)
	full := `<?xml version="1.0"?><Error><Code>InsufficientStorage</Code><Message>no space for ` + c.SecretKey + `</Message></Error>`
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"full", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusInsufficientStorage)
			_, _ = io.WriteString(w, full)
		}, "it is full: make room there"},
		{"broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "see its log, and try again"},
		{"gone in the middle", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.CopyN(io.Discard, r.Body, 1000)
			panic(http.ErrAbortHandler)
		}, "it ended the connection"},
		{"takes it and forgets it", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("ETag", `"0"`)
		}, "does not give it back"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var puts atomic.Int32
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					puts.Add(1)
					tt.answer(w, r)
					return
				}
				if strings.Trim(r.URL.Path, "/") == c.Bucket {
					return
				}
				w.WriteHeader(http.StatusNotFound)
				if r.Method == http.MethodGet {
					_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>`)
				}
			}))
			defer proxy.Close()
			c := c
			c.Endpoint, c.Insecure, c.CA = strings.TrimPrefix(proxy.URL, "http://"), true, ""
			b := open(t, c)
			err := put(t, b, "one.zip", bytes.Repeat([]byte("text"), 1<<18))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), c.SecretKey) {
				t.Errorf("%v\nwant %q", err, tt.want)
			}
			if puts.Load() == 0 {
				t.Error("it was never put")
			}
		})
	}
	if all, err := target.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%s has %v, %v", s.Endpoint, all, err)
	}
}

// What something answers that is no S3, or an S3 that says too much: none of its words are shown, and little of it comes in.
func TestWordsOfAnEndpoint(t *testing.T) {
	const words = "hunter3"
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"a message": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code><Message>"+words+"</Message></Error>")
		}, "it answers AccessDenied: let the keys"},
		"a code that is none": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "<Error><Code>"+words+" </Code></Error>")
		}, "it answers 403 Forbidden"},
		"a header": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("x-minio-error-code", words)
			w.WriteHeader(400)
		}, "it answers 400 Bad Request"},
		"a page": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, words, http.StatusTeapot) }, "it answers 418"},
		"another page": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<"+words+">"+words+"</other>")
		}, "its answer is not one of S3"},
		"a region": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "<Error><Code>InvalidRegion</Code><Region>"+words+" </Region></Error>")
		}, "set the bucket's region"},
		"nothing": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "it ended the connection"},
		"objects without end": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<ListBucketResult>")
			for many := strings.Repeat("<Contents/>", 1000); ; {
				if _, err := io.WriteString(w, many); err != nil {
					return
				}
			}
		}, "longer than one of a bucket can be"},
		"a name without end": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<ListBucketResult><Name>")
			for many := strings.Repeat("x", 64<<10); ; {
				if _, err := io.WriteString(w, many); err != nil {
					return
				}
			}
		}, "longer than one of a bucket can be"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(tt.answer)
			defer s.Close()
			b := open(t, bucket.Config{Endpoint: strings.TrimPrefix(s.URL, "http://"), Insecure: true, Bucket: "harbour", Region: "us-east-1", AccessKey: "hunter-access", SecretKey: "hunter-secret"})
			_, err := b.List(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), words) {
				t.Errorf("%v\nwant %q", err, tt.want)
			}
		})
	}
}

// A way leads each connection.
func TestWay(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
	defer s.Close()
	b := open(t, bucket.Config{Endpoint: strings.TrimPrefix(s.URL, "http://"), Insecure: true, Bucket: "harbour", Region: "us-east-1", AccessKey: "hunter-access", SecretKey: "hunter-secret", Way: func(t *http.Transport) {
		t.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("not there")}
		}
	}})
	if _, err := b.List(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "list what is there: not there") {
		t.Error(err)
	}
}

func TestStopped(t *testing.T) {
	_, c := realServer(t)
	b := open(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.List(ctx); err == nil || !strings.Contains(err.Error(), "it was stopped") {
		t.Errorf("got %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for want, c := range map[string]bucket.Config{
		"one key of two":        {Bucket: "b", AccessKey: "AKIA"},
		"there is none":         {},
		"not a certificate":     {Bucket: "b", CA: "CA"},
		"without https://":      {Bucket: "b", Endpoint: "https://s3.example.com"},
		"bucket b at s3.amazon": {Bucket: "b", SecretKey: "hunter2"},
	} {
		if _, err := bucket.Open(c); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%#v: %v, want %q", c, err, want)
		}
	}
}

// What is printed of a config has no keys.
func TestPrintedConfig(t *testing.T) {
	c := bucket.Config{Bucket: "b", Folder: "f", AccessKey: "AKIA", SecretKey: "hunter2"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, c); text != "bucket b/f at s3.amazonaws.com" {
			t.Errorf("%s is %s", format, text)
		}
	}
}

func TestExpired(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	all := []bucket.Object{
		{Name: "c-a-rs-1.zip", Changed: day(1)}, {Name: "c-a-rs-2.zip", Changed: day(4)}, {Name: "c-a-rs-3.zip", Changed: day(3)},
		{Name: "mine.zip", Changed: day(1)}, {Name: "c-b-rs-1.zip", Changed: day(1)},
	}
	series := func(name string) bool { return strings.HasPrefix(name, "c-a-r") }
	for keep, want := range map[int][]string{0: nil, 1: {"c-a-rs-3.zip", "c-a-rs-1.zip"}, 2: {"c-a-rs-1.zip"}, 3: nil, 9: nil} {
		var names []string
		for _, o := range bucket.Expired(all, series, keep) {
			names = append(names, o.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("keep %d: %v, want %v", keep, names, want)
		}
	}
}
