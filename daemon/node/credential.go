// The host's own credential: what distinguishes it from every other host that knows the
// cluster's registration token. Drover's server takes a tunnel under this host's name from
// no server without it.

package node

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/drover-project/drover/plans/durable"
)

// maxCredential bounds the file of the credential, in bytes.
const maxCredential = 256

// credentialFile is where the credential is kept: on the host itself, by the mounts that the
// join command has, so that a new container of the agent has it too.
const credentialFile = "/etc/kubernetes/ssl/drover-host-credential"

// credential is the one that is kept below a root, made at the first start.
func credential(root string) (string, error) {
	file := filepath.Join("/", root, credentialFile)
	kept, err := durable.ReadFile(file, maxCredential)
	if err == nil && len(kept) > 0 {
		return string(kept), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read this host's credential: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", fmt.Errorf("keep this host's credential: %w", err)
	}
	// Before it is sent anywhere: a host whose agent forgot it would be refused by its server.
	made := rand.Text() + rand.Text()
	if err := durable.WriteFile(file, []byte(made), 0o600); err != nil {
		return "", fmt.Errorf("keep this host's credential: %w", err)
	}
	return made, nil
}
