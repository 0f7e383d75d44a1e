// What can be wrong with a dial or a connection, each as a type, so that callers decide
// by type and people read a sentence.

package tunnel

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// ErrBusy says that every tunnel of a subject carries as many connections as it may
// (1,000 each). A proxy answers 429.
var ErrBusy = errors.New("too many connections through the tunnel")

// NoSessionError says that a subject has no open tunnel.
type NoSessionError struct {
	Subject string
	// Last is when its last tunnel ended; zero when there was none since the start of the server.
	Last time.Time
	// Reason is why that one ended; empty when there was none.
	Reason string
}

// Error says when the last tunnel ended, in UTC, and why.
func (e *NoSessionError) Error() string {
	if e.Last.IsZero() {
		return fmt.Sprintf("no tunnel from %s: it has not connected yet", e.Subject)
	}
	text := fmt.Sprintf("no tunnel from %s: not connected since %s", e.Subject, e.Last.UTC().Format(time.RFC3339))
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// RefusedError says that a policy, the server's or the host's own, does not let a target be dialled.
type RefusedError struct {
	Network, Address string
	Reason           string
}

// Error names the target and the policy's reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("dial %s %s: refused: %s", e.Network, e.Address, e.Reason)
}

// TargetRefusedError says that the host could not or would not connect to the target. It is
// an error of the first Read, since the protocol does not acknowledge a dial.
type TargetRefusedError struct {
	Subject, Network, Address string
	// Text is what the host said, cut to 100 bytes by the protocol.
	Text string
}

// Error names the target and what the host answered.
func (e *TargetRefusedError) Error() string {
	return fmt.Sprintf("the host of %s could not connect to %s %s: %s", e.Subject, e.Network, e.Address, e.Text)
}

// LostError says that a connection ended because its tunnel did, or because the tunnel
// lost track of it.
type LostError struct {
	Subject, Network, Address string
	// Answered says that something had come back from the target. If not, the dial can be repeated.
	Answered bool
	Reason   string
}

// Error names the target and how the connection was lost.
func (e *LostError) Error() string {
	return fmt.Sprintf("connection to %s %s of %s lost: %s", e.Network, e.Address, e.Subject, e.Reason)
}

// HandshakeError is a server's refusal of a tunnel.
type HandshakeError struct {
	Status int
	Text   string // for a client the beginning of the server's answer
}

// Error has the HTTP status and the text.
func (e *HandshakeError) Error() string {
	return fmt.Sprintf("the server answered %d %s: %s", e.Status, http.StatusText(e.Status), e.Text)
}
