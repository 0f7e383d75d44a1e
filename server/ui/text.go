// Answers of plain text that come bit by bit.

package ui

import (
	"io"
	"net/http"
	"time"

	"github.com/drover-project/drover/server/api/route"
)

// Plain begins an answer of plain text that comes bit by bit: what is written to it is sent at once.
func Plain(c *route.Call, status int) io.Writer {
	h := c.W.Header()
	headers(h)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Accel-Buffering", "no") // proxies that collect answers hold it back
	c.W.WriteHeader(status)
	_ = write(c, nil) // the client has gone when this fails
	return written(func(b []byte) error {
		if err := write(c, b); err != nil {
			return err
		}
		// Nothing may come for long, and there is no hurry between two writes.
		_ = http.NewResponseController(c.W).SetWriteDeadline(time.Time{}) // what has no deadlines has none to take back
		return nil
	})
}

// written is an io.Writer that is a function.
type written func([]byte) error

// Write implements io.Writer.
func (w written) Write(b []byte) (int, error) {
	if err := w(b); err != nil {
		return 0, err
	}
	return len(b), nil
}
