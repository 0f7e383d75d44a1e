// The keys without which a restored store cannot be read, and hosts do not trust the server.

package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/server/store"
)

// Keys is where the keys of a server are.
type Keys struct {
	// KeyFile holds the keys of the encryption at rest.
	KeyFile string
	// TLSDir holds ca.crt and ca.key of the authority that hosts have pinned.
	TLSDir string
}

// KeysIn are those of a data directory; keyFile is the key file where it is elsewhere.
func KeysIn(dataDir, keyFile string) Keys {
	k := Keys{KeyFile: keyFile, TLSDir: filepath.Join(dataDir, "tls")}
	if k.KeyFile == "" {
		k.KeyFile = filepath.Join(dataDir, keyFileName)
	}
	return k
}

// read is the keys that a backup with this manifest needs, held to be the right ones.
func (k Keys) read(m Manifest) ([]File, error) {
	switch right, err := store.HoldsKey(k.KeyFile, m.DataKey); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the key %s is needed, with which the secrets of the backup are encrypted, and there is no key file %s", m.DataKey, k.KeyFile)
	case err != nil:
		return nil, err
	case !right:
		return nil, fmt.Errorf("the key %s is needed, with which the secrets of the backup are encrypted, and %s holds others", m.DataKey, k.KeyFile)
	}
	names := map[string]string{keyFileName: k.KeyFile}
	if m.Authority != "" {
		names[caCertName], names[caKeyName] = filepath.Join(k.TLSDir, "ca.crt"), filepath.Join(k.TLSDir, "ca.key")
	}
	var files []File
	for _, name := range []string{keyFileName, caCertName, caKeyName} {
		path, needed := names[name]
		if !needed {
			continue
		}
		content, err := durable.ReadFile(path, maxSmall)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the authority that hosts have pinned is needed (checksum %s), and there is no %s", m.Authority, path)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, File{name, content})
	}
	return files, checkAuthority(m, files)
}

// checkAuthority refuses an authority that hosts do not trust.
func checkAuthority(m Manifest, files []File) error {
	for _, f := range files {
		if f.Name != caCertName {
			continue
		}
		block, _ := pem.Decode(f.Content)
		if block == nil {
			return fmt.Errorf("%s holds no certificate in PEM", f.Name)
		}
		if sum := sha256.Sum256(pem.EncodeToMemory(block)); hex.EncodeToString(sum[:]) != m.Authority {
			return fmt.Errorf("the authority that hosts have pinned is needed (checksum %s), and the given one is %s", m.Authority, hex.EncodeToString(sum[:]))
		}
	}
	return nil
}

// lay writes keys below a data directory.
func lay(dataDir string, files []File) error {
	if err := os.MkdirAll(filepath.Join(dataDir, "tls"), 0o700); err != nil {
		return err
	}
	for _, f := range files {
		mode := fs.FileMode(0o600)
		if f.Name == caCertName {
			mode = 0o644
		}
		if err := durable.WriteFile(filepath.Join(dataDir, filepath.FromSlash(f.Name)), f.Content, mode); err != nil {
			return err
		}
	}
	return nil
}
