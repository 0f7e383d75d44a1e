// Open pages as browsers hold them: each a connection with a stream, whose bytes are kept with the time of their coming. They
// are read only afterwards, so that what a browser does with its own processor is not measured.

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// opened are pages that are open.
type opened struct {
	pages   []*screen
	reading sync.WaitGroup
}

// screen is one of them.
type screen struct {
	path string
	conn *conn
	mu   sync.Mutex
	came []came
}

// came is some bytes at some time.
type came struct {
	text []byte
	at   time.Time
}

// open opens pages and waits until each shows something.
func (o *onlookers) open(ctx context.Context, paths []string) (*opened, error) {
	o.say("opening %d pages", len(paths))
	all, began := &opened{}, time.Now()
	for _, path := range paths {
		c, err := o.shared.dialer.dial(ctx)
		if err != nil {
			all.close()
			return nil, err
		}
		page := &screen{path: path, conn: c}
		all.pages = append(all.pages, page)
		response, err := c.open([]byte("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\nAccept-Encoding: gzip\r\nAuthorization: Bearer " + o.token + "\r\n\r\n"))
		if err == nil && (response.StatusCode != http.StatusOK || response.Header.Get("Content-Encoding") != "gzip") {
			err = fmt.Errorf("%s, encoded as %q", response.Status, response.Header.Get("Content-Encoding"))
		}
		if err != nil {
			all.close()
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		all.reading.Go(func() { page.read(response.Body) })
	}
	if err := all.await(ctx, began, 5*time.Minute); err != nil {
		all.close()
		return nil, err
	}
	return all, nil
}

// read keeps what comes, until the page is closed.
func (s *screen) read(body io.Reader) {
	for buffer := make([]byte, 64<<10); ; {
		n, err := body.Read(buffer)
		if n > 0 {
			s.mu.Lock()
			s.came = append(s.came, came{bytes.Clone(buffer[:n]), time.Now()})
			s.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// close closes them; nil are none.
func (all *opened) close() {
	if all == nil {
		return
	}
	for _, page := range all.pages {
		page.conn.close()
	}
	all.reading.Wait()
}

// await waits until each page got something, of the size of a picture, since a time.
func (all *opened) await(ctx context.Context, since time.Time, limit time.Duration) error {
	const picture = 500
	return until(ctx, limit, "a picture on each open page", func() (bool, error) {
		for _, page := range all.pages {
			page.mu.Lock()
			size := 0
			for i := len(page.came) - 1; i >= 0 && page.came[i].at.After(since); i-- {
				size += len(page.came[i].text)
			}
			page.mu.Unlock()
			if size < picture {
				return false, nil
			}
		}
		return true, nil
	})
}

// shown is how long it took from each change until its word was on each of the pages that are lists.
func (all *opened) shown(words []string, asked []time.Time) ([]time.Duration, error) {
	var took []time.Duration
	for _, page := range all.pages {
		if !strings.HasPrefix(page.path+"?", allClusters+"?") {
			continue
		}
		at, err := page.find(words)
		if err != nil {
			return nil, err
		}
		for i := range words {
			took = append(took, at[i].Sub(asked[i]))
		}
	}
	return took, nil
}

// find is when each word was on the page for the first time. The words come in their order.
func (s *screen) find(words []string) ([]time.Time, error) {
	s.mu.Lock()
	kept := &replay{came: s.came}
	s.mu.Unlock()
	text, err := gzip.NewReader(kept)
	if err != nil {
		return nil, fmt.Errorf("read the stream of %s: %w", s.path, err)
	}
	var found []time.Time
	var event []byte
	for lines := bufio.NewReader(text); len(found) < len(words); {
		line, err := lines.ReadSlice('\n')
		event = append(event, line...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, fmt.Errorf("%s never showed %s, which is there", s.path, words[len(found)])
		case len(line) > 1:
			continue
		}
		for len(found) < len(words) && bytes.Contains(event, []byte(words[len(found)])) {
			found = append(found, kept.at)
		}
		event = event[:0]
	}
	return found, nil
}

// replay reads what came once more; at is when the last of what was read had come.
type replay struct {
	came []came
	rest []byte
	at   time.Time
}

func (r *replay) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if len(r.came) == 0 {
			return 0, io.EOF
		}
		r.rest, r.at = r.came[0].text, r.came[0].at
		r.came = r.came[1:]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
