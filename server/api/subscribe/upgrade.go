// Package subscribe carries changes to clients over websockets: the upgrade, a log of
// recent changes that a client can go back in, and the loop that writes frames and
// keeps the connection alive. What a frame shows is decided by the package that uses it.
//
// Wire source: rancher/norman api/handler and rancher/apiserver pkg/subscribe.
package subscribe

import (
	"bufio"
	"bytes"
	"crypto/sha1" // #nosec G505 -- RFC 6455 wants it; nothing is secured by it
	"encoding/base64"
	"fmt"
	"net"
	"net/http"

	"github.com/gorilla/websocket"
)

// sampleKey stands in for keys that the websocket library does not take.
const sampleKey = "dGhlIHNhbXBsZSBub25jZQ=="

// Upgrade makes the request a websocket. It has answered when it returns an error.
//
// RFC 6455 wants a key of 16 bytes, and the library insists. People test whether
// websockets pass their load balancer with a key of 13 that is in many guides, and the
// peer takes it; so any key is taken, and only the accept value follows it.
func Upgrade(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }} // checked with the cookie
	key := r.Header.Get("Sec-WebSocket-Key")
	if decoded, err := base64.StdEncoding.DecodeString(key); key != "" && (err != nil || len(decoded) != 16) {
		r = r.Clone(r.Context())
		r.Header.Set("Sec-WebSocket-Key", sampleKey)
		w = &acceptingWriter{ResponseWriter: w, key: key}
	}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, fmt.Errorf("upgrade to a websocket: %w", err)
	}
	return conn, nil
}

// IsUpgrade says whether the client asks for a websocket.
func IsUpgrade(r *http.Request) bool { return websocket.IsWebSocketUpgrade(r) }

// accept is the answer to a key, RFC 6455 section 4.2.2.
func accept(key string) []byte {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // #nosec G401 -- see the import
	return []byte(base64.StdEncoding.EncodeToString(sum[:]))
}

// acceptingWriter answers the handshake for the client's own key.
type acceptingWriter struct {
	http.ResponseWriter
	key string
}

// Hijack gives the connection with the answer's accept value put right.
func (w *acceptingWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return &acceptingConn{Conn: conn, from: accept(sampleKey), to: accept(w.key)}, rw, nil
}

// acceptingConn changes the first thing written, which is the answer to the handshake.
// Both values are 28 characters long, so what is counted stays right.
type acceptingConn struct {
	net.Conn
	from, to []byte
	answered bool
}

func (c *acceptingConn) Write(p []byte) (int, error) {
	if c.answered {
		return c.Conn.Write(p)
	}
	c.answered = true
	return c.Conn.Write(bytes.Replace(p, c.from, c.to, 1))
}
