// Requests that become connections: exec, attach, port-forward.

package kubeproxy

import (
	"bufio"
	"net"
	"net/http"

	"github.com/drover-project/drover/server/connlimit"
	"github.com/drover-project/drover/tunnel"
)

// paused is how long a user may read nothing of a shell or a forwarded port, as on the other side of the tunnel.
const paused = tunnel.PatientStall

// upgraded gives a caller's connection away with what was sent on it before the answer, which httputil.ReverseProxy would lose.
type upgraded struct{ http.ResponseWriter }

// Hijack implements http.Hijacker.
func (w upgraded) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, err := tunnel.Hijack(w.ResponseWriter)
	if err != nil {
		return nil, nil, err
	}
	connlimit.Patient(conn, paused)
	return conn, bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn)), nil
}

// Unwrap is found by http.ResponseController.
func (w upgraded) Unwrap() http.ResponseWriter { return w.ResponseWriter }
