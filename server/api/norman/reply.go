// Answers: JSON or YAML, compressed when the client takes it, never cached.

package norman

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

// compressFrom is the size below which compression costs more than it saves, in bytes.
const compressFrom = 1024

// Replier writes answers. The zero value is ready.
type Replier struct {
	writers sync.Pool // of *gzip.Writer: each holds some 800 KiB
}

// Send answers with a value. An error value is written by Fail.
func (p *Replier) Send(w http.ResponseWriter, r *http.Request, status int, value any) {
	p.send(w, r, status, value, false)
}

// SendTagged answers with a value that seldom changes: with an ETag, and 304 when the client has it.
func (p *Replier) SendTagged(w http.ResponseWriter, r *http.Request, value any) {
	p.send(w, r, http.StatusOK, value, true)
}

// Fail answers with an error in its envelope.
func (p *Replier) Fail(w http.ResponseWriter, r *http.Request, e *Error) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Seconds()+0.999)))
	}
	p.Send(w, r, e.Status, e)
}

// Uncached sets the headers that every answer of the API has.
func Uncached(h http.Header) {
	h.Set("Expires", "Wed 24 Feb 1982 18:42:00 GMT")
	h.Set("Cache-Control", "no-store")
}

func (p *Replier) send(w http.ResponseWriter, r *http.Request, status int, value any, tagged bool) {
	h := w.Header()
	Uncached(h)
	contentType, body, err := encode(r, value)
	if err != nil {
		status, contentType = http.StatusInternalServerError, "application/json"
		body = []byte(`{"type":"error","baseType":"error","status":500,"code":"ServerError","message":"the answer could not be written"}`)
	}
	h.Set("Content-Type", contentType)
	h.Add("Vary", "Accept, Accept-Encoding")
	if tagged {
		sum := sha256.Sum256(body)
		tag := `W/"` + hex.EncodeToString(sum[:12]) + `"`
		h.Set("ETag", tag)
		h.Set("Cache-Control", "private, no-cache")
		if strings.Contains(r.Header.Get("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	if len(body) >= compressFrom && AcceptsGzip(r) {
		body = p.compress(body)
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client has gone when this fails; no client is left to notify
}

func (p *Replier) compress(body []byte) []byte {
	z, ok := p.writers.Get().(*gzip.Writer)
	if !ok {
		z, _ = gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is valid
	}
	defer p.writers.Put(z)
	var out bytes.Buffer
	z.Reset(&out)
	_, _ = z.Write(body) // a bytes.Buffer takes everything
	_ = z.Close()
	return out.Bytes()
}

// AcceptsGzip says whether a client takes answers that are compressed.
func AcceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		coding, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			q, found := strings.CutPrefix(strings.ReplaceAll(params, " ", ""), "q=")
			return !found || strings.Trim(q, "0.") != ""
		}
	}
	return false
}

// wantsYAML follows _format, then Accept; everything else, browsers included, gets JSON.
func wantsYAML(r *http.Request) bool {
	switch r.URL.Query().Get("_format") {
	case "yaml":
		return true
	case "json", "html":
		return false
	}
	return strings.Contains(r.Header.Get("Accept"), "application/yaml")
}

func encode(r *http.Request, value any) (contentType string, body []byte, err error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return "", nil, fmt.Errorf("encode answer: %w", err)
	}
	if !wantsYAML(r) {
		return "application/json", out.Bytes(), nil
	}
	dec := json.NewDecoder(&out)
	dec.UseNumber()
	var plain any
	if err := dec.Decode(&plain); err != nil {
		return "", nil, fmt.Errorf("read answer back: %w", err)
	}
	body, err = yaml.Marshal(numbers(plain))
	if err != nil {
		return "", nil, fmt.Errorf("encode answer as YAML: %w", err)
	}
	return "application/yaml", body, nil
}

// numbers turns json.Number into numbers, which yaml.v3 would write as text.
func numbers(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		if f, err := x.Float64(); err == nil {
			return f
		}
	}
	return v
}

// AsError is the error's own envelope, if it has one.
func AsError(err error) (*Error, bool) { return errors.AsType[*Error](err) }
