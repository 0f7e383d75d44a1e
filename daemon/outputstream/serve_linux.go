// The feed over HTTP: GET /v1/output answers with one JSON record a line.

package outputstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// maxReaders is how many may read at the same time.
	maxReaders = 16
	// writeLimit is how long a reader may take to accept a line.
	writeLimit = 30 * time.Second
	// maxQuery bounds one parameter, in bytes.
	maxQuery = 512
)

// Handler answers GET /v1/output. Its parameters are source, id, instruction, attempt and
// offset, all of which may be left out, and only, follow and periodic, which are 1; see Place. The
// answer ends when there is nothing more to send, which with follow is when the reader goes.
func (f *Feed) Handler() http.Handler {
	places := make(chan struct{}, maxReaders)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		place, err := ParsePlace(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			http.Error(w, fmt.Sprintf("%d others look on already", maxReaders), http.StatusServiceUnavailable)
			return
		}
		f.serve(w, r, place)
	})
}

func (f *Feed) serve(w http.ResponseWriter, r *http.Request, place Place) {
	control := http.NewResponseController(w)
	// The server's limit for a whole request would end the stream. A connection that knows no
	// deadlines has none to lift.
	_ = control.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	write := func(line []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeLimit))
		if _, err := w.Write(append(line, '\n')); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	if control.Flush() != nil { // the reader sees that he is heard, though there may be nothing to send
		return
	}
	reader := f.Read(place)
	for {
		ctx, cancel := context.WithTimeout(r.Context(), silence)
		record, err := reader.Next(ctx)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil:
			if !write(nil) {
				return
			}
			continue
		case err != nil:
			return
		}
		line, err := json.Marshal(record)
		if err != nil || !write(line) {
			return
		}
	}
}

// ParsePlace reads the parameters of a request. The error names the parameter that is not of its form.
func ParsePlace(q url.Values) (Place, error) {
	p := Place{Source: q.Get("source"), ID: q.Get("id"), Instruction: q.Get("instruction"), Attempt: -1}
	for key := range q {
		if len(q.Get(key)) > maxQuery {
			return p, fmt.Errorf("%.40s has more than %d bytes", key, maxQuery)
		}
	}
	if text := q.Get("attempt"); text != "" {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return p, fmt.Errorf("attempt %q is not a number such as 1", text)
		}
		p.Attempt = int(n)
	}
	if text := q.Get("offset"); text != "" {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return p, fmt.Errorf("offset %q is not a number of bytes", text)
		}
		p.Offset = int64(n)
	}
	for key, to := range map[string]*bool{"only": &p.Only, "follow": &p.Follow, "periodic": &p.Periodic} {
		switch text := q.Get(key); text {
		case "", "0", "false":
		case "1", "true":
			*to = true
		default:
			return p, fmt.Errorf("%s %q is neither 1 nor 0", key, text)
		}
	}
	return p, nil
}
