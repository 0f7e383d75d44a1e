// One client's connection.

package subscribe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	writeTimeout = 10 * time.Second
	// readLimit bounds a client's frame, in bytes.
	readLimit = 64 << 10
)

// Close codes of drover: why a server ended a session.
const (
	CloseExpired = 4001 // the token is no longer valid
	CloseDenied  = 4003 // access was lost
)

// Frame is one event as the client reads it.
type Frame struct {
	Name         string `json:"name"`
	ResourceType string `json:"resourceType,omitempty"`
	// Namespace and ID repeat what the client asked for.
	Namespace string `json:"namespace,omitempty"`
	ID        string `json:"id,omitempty"`
	// Revision is filled in when it is empty.
	Revision string `json:"revision"`
	Data     any    `json:"data,omitempty"`
}

// EndError is why the server ends a session: code and reason go to the client.
type EndError struct {
	Code   int
	Reason string
}

func (e *EndError) Error() string { return fmt.Sprintf("%d: %s", e.Code, e.Reason) }

// Session is one client's connection.
type Session struct {
	Conn *websocket.Conn
	Log  *Log
	// From is where the client begins; Lost says that it missed something before.
	From Cursor
	Lost bool
	// Ping is how often a frame is sent when nothing happens.
	Ping time.Duration
	// Now is for deadlines of the connection, so it is the real clock; nil takes time.Now.
	Now func() time.Time
	// Show is what a change is to the client, nothing when it is not for it.
	Show func(Change) []Frame
	// Alive is asked before changes are shown and with each ping; its *EndError ends the session.
	Alive func() error
	// Batch is called before changes are shown; nil is not called.
	Batch func([]Change)
	// Over is closed when Alive should be asked at once; nil never is.
	Over <-chan struct{}
	// Receive answers a frame of the client; nil ignores what clients send.
	Receive func(data []byte) []Frame
}

// Run writes frames until the client goes, ctx ends or Alive refuses. It closes the connection.
func (s *Session) Run(ctx context.Context) error {
	if s.Now == nil {
		s.Now = time.Now
	}
	received := make(chan []byte)
	gone := make(chan struct{})
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(gone)
		s.read(received, stop)
	})
	err := s.write(ctx, received, gone)
	s.close(ctx, err)
	close(stop)
	reader.Wait()
	return err
}

// read hands on the client's frames and notices its end.
func (s *Session) read(received chan<- []byte, stop <-chan struct{}) {
	s.Conn.SetReadLimit(readLimit)
	for {
		_, data, err := s.Conn.ReadMessage()
		if err != nil {
			return
		}
		if s.Receive == nil {
			continue
		}
		select {
		case received <- data:
		case <-stop:
			return
		}
	}
}

func (s *Session) write(ctx context.Context, received <-chan []byte, gone <-chan struct{}) error {
	ticker := time.NewTicker(s.Ping)
	defer ticker.Stop()
	cursor, lost, over := s.From, s.Lost, s.Over
	for {
		changes, after, head, more, ok := s.Log.Next(cursor)
		cursor, lost = after, lost || !ok
		if lost {
			lost = false
			if err := s.send(head, Frame{Name: "resync", Data: struct{}{}}); err != nil {
				return err
			}
		}
		if len(changes) > 0 {
			if err := s.show(changes); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-gone:
			return nil
		case <-more:
		case data := <-received:
			for _, f := range s.Receive(data) {
				if err := s.send(head, f); err != nil {
					return err
				}
			}
		case <-over:
			over = nil
			if err := s.Alive(); err != nil {
				return err
			}
		case <-ticker.C:
			if err := s.Alive(); err != nil {
				return err
			}
			if err := s.send(head, Frame{Name: "ping", Data: struct{}{}}); err != nil {
				return err
			}
		}
	}
}

func (s *Session) show(changes []Change) error {
	if err := s.Alive(); err != nil {
		return err
	}
	if s.Batch != nil {
		s.Batch(changes)
	}
	for _, c := range changes {
		for _, f := range s.Show(c) {
			if err := s.send(c.Revision, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Session) send(revision int64, f Frame) error {
	if f.Revision == "" {
		f.Revision = strconv.FormatInt(revision, 10)
	}
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode a frame: %w", err)
	}
	if err := s.Conn.SetWriteDeadline(s.Now().Add(writeTimeout)); err != nil {
		return fmt.Errorf("write a frame: %w", err)
	}
	if err := s.Conn.WriteMessage(websocket.TextMessage, data); err != nil {
		return fmt.Errorf("write a frame: %w", err)
	}
	return nil
}

// close says goodbye with a code, if the client is still there, and closes.
func (s *Session) close(ctx context.Context, err error) {
	code, reason := websocket.CloseNormalClosure, ""
	if end, ok := errors.AsType[*EndError](err); ok {
		code, reason = end.Code, end.Reason
	} else if ctx.Err() != nil {
		code, reason = websocket.CloseGoingAway, "the server stops"
	}
	// Both fail when the client has gone, which is then no matter.
	_ = s.Conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), s.Now().Add(time.Second))
	_ = s.Conn.Close()
}
