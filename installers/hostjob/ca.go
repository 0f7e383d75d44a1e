// New CAs for a cluster: what a rotation of them has hosts do.
//
// The distribution has a command that takes other CAs to etcd, and expects them to be made by hand. They are made where they are
// needed, so that no private key leaves the host. openssl makes them, as the distribution's own example does: the job works
// under any agent that the host has, and the host has it or says so before anything changes. A command of the agent would have to
// be there first, in every version that a host still runs.
//
// Source: k3s-io/k3s pkg/server/handlers/cert.go, pkg/daemons/control/deps, contrib/util/rotate-default-ca-certs.sh.

package hostjob

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/drover-project/drover/plans"
)

var (
	//go:embed newcas.sh
	newCAs string
	//go:embed takecas.sh
	takeCAs string
	//go:embed listener.sh
	listener string
	//go:embed hascas.sh
	hasCAs string
	//go:embed dropcas.sh
	dropCAs string
)

// cas is where a host keeps new CAs until all servers have them.
func (h Host) cas() string { return path.Join(h.DataDir, "drover/cas") }

// NewCAs makes the CAs of a server, its control plane and its etcd anew, and a key for service accounts, which the host keeps.
// They are signed by those of now too. Nothing changes with it; its output is for ReadCAs. The host has etcd.
func (h Host) NewCAs(id string) plans.OneTimeInstruction {
	return h.instruction(id, newCAs, h.cas())
}

// TakeCAs takes what NewCAs made to etcd. hash is what it said. The servers have them when they have started again.
func (h Host) TakeCAs(id, hash string) plans.OneTimeInstruction {
	return h.instruction(id, takeCAs, h.cas(), hash, h.Distribution.JoinURL("127.0.0.1"), h.unit())
}

// StartWithCAs restarts a server, whether it has a control plane or not, and looks whether it has the CAs with the hash then.
func (h Host) StartWithCAs(id, hash string, controlPlane bool) plans.OneTimeInstruction {
	admin := ""
	if controlPlane {
		admin = h.Distribution.AdminKubeconfig()
	}
	return h.instruction(id, oldKeys+kubectl+listener+restart+hasCAs, h.unit(), hash, admin)
}

// DropCAs removes what NewCAs has left.
func (h Host) DropCAs(id string) plans.OneTimeInstruction {
	return h.instruction(id, dropCAs, h.cas())
}

var hashForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })

// ReadCAs reads the output of NewCAs: the SHA-256, in hex, of the file of the server's CA, by which a server knows the new CAs. The error says that
// no hash is in it.
func ReadCAs(output []byte) (hash string, err error) {
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(string(output)), "\n")) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var said struct {
			CA string `json:"ca"`
		}
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			return "", fmt.Errorf("read what the host says of the new CAs: %w", err)
		}
		if !hashForm().MatchString(said.CA) {
			return "", fmt.Errorf("read what the host says of the new CAs: %.80q is not a SHA-256 in hex", said.CA)
		}
		return said.CA, nil
	}
	return "", fmt.Errorf("the host does not say which CAs it has made")
}
