// How certificates and addresses are written in flags.

package desired

import (
	"net"
	"strconv"

	"github.com/drover-project/drover/rke1/pki"
)

var caFile = pki.Path(pki.CA)

// pem are the files of a certificate and its key, as containers see them.
func pem(name string) (cert, key string) { return pki.Path(name), pki.KeyPath(name) }

// address writes HOST:PORT, with brackets around an IPv6 address.
func address(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
