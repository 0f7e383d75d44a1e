// Encrypting backups, and opening them again.

package backup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"

	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/rke1/export"
)

const (
	// ageMagic begins what is encrypted.
	ageMagic = "age-encryption.org/"
	// maxSecret bounds a file with a passphrase or private keys, in bytes.
	maxSecret = 64 << 10
	// minPassphrase is the shortest passphrase, in bytes: an attacker with a backup can try many.
	minPassphrase = 12
)

// Sealing is how backups are encrypted; the zero value does not.
type Sealing struct{ recipients []age.Recipient }

// NewSealing encrypts for public keys (age1…, ssh-ed25519 …), or with the passphrase in a file;
// with neither it does not encrypt. An error does not repeat keys.
func NewSealing(recipients []string, passphraseFile string) (Sealing, error) {
	switch {
	case len(recipients) > 0 && passphraseFile != "":
		return Sealing{}, errors.New("a backup is encrypted for recipients or with a passphrase, and not both: leave one of them out")
	case len(recipients) > 0:
		keys, err := export.Recipients(recipients)
		return Sealing{keys}, err
	case passphraseFile == "":
		return Sealing{}, nil
	}
	passphrase, err := readPassphrase(passphraseFile)
	if err != nil {
		return Sealing{}, err
	}
	key, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return Sealing{}, fmt.Errorf("use the passphrase in %s: %w", passphraseFile, err)
	}
	return Sealing{[]age.Recipient{key}}, nil
}

// Encrypts says whether it does.
func (s Sealing) Encrypts() bool { return len(s.recipients) > 0 }

// Suffix ends the names of files.
func (s Sealing) Suffix() string {
	if s.Encrypts() {
		return ".tar.age"
	}
	return ".tar"
}

// Seal encrypts what is written. Close ends it and leaves w open. Its error is the writer's.
func (s Sealing) Seal(w io.Writer) (io.WriteCloser, error) {
	if !s.Encrypts() {
		return open{w}, nil
	}
	sealed, err := age.Encrypt(w, s.recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypt the backup: %w", err)
	}
	return sealed, nil
}

type open struct{ io.Writer }

func (open) Close() error { return nil }

// readPassphrase is the first line of a file that its owner alone can read.
func readPassphrase(path string) (string, error) {
	text, err := readSecret(path)
	if err != nil {
		return "", fmt.Errorf("read the passphrase: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	line = strings.TrimSpace(line)
	if len(line) < minPassphrase {
		return "", fmt.Errorf("the passphrase in %s, which is its first line, has %d bytes: give at least %d", path, len(line), minPassphrase)
	}
	return line, nil
}

func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o: others can read it; chmod 600 it", path, mode)
	}
	return durable.ReadFile(path, maxSecret)
}

// Opening is what opens encrypted backups; the zero value opens none.
type Opening struct {
	// IdentityFile has private keys, of age or of SSH, PassphraseFile a passphrase.
	IdentityFile, PassphraseFile string
}

// Open is the backup in r, decrypted where it is encrypted. A wrong key or passphrase is an error that says which is needed.
func (o Opening) Open(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(r, 1<<16)
	head, err := buffered.Peek(len(ageMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read it: %w", err)
	}
	if string(head) != ageMagic {
		return buffered, nil
	}
	keys, err := o.identities()
	if err != nil {
		return nil, err
	}
	below := &source{from: buffered}
	opened, err := age.Decrypt(below, keys...)
	if _, other := errors.AsType[*age.NoIdentityMatchError](err); other {
		return nil, errors.New("it is encrypted, and not for this key or with this passphrase, unless its beginning was changed: give the one that it was made for, or copy it again")
	}
	if err != nil {
		return nil, below.orDamaged("the head of what is encrypted cannot be read (%v)", err)
	}
	return &decrypted{opened, below}, nil
}

// source remembers whether it was the file that could not be read.
type source struct {
	from io.Reader
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func (s *source) orDamaged(format string, args ...any) error {
	if s.err != nil {
		return fmt.Errorf("read it: %w", s.err)
	}
	return damaged(format, args...)
}

// decrypted distinguishes what does not decrypt from what cannot be read.
type decrypted struct {
	from  io.Reader
	below *source
}

func (d *decrypted) Read(p []byte) (int, error) {
	n, err := d.from.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // an io.ErrUnexpectedEOF is not the end
		err = d.below.orDamaged("it does not decrypt: it is cut off, or was changed since it was written")
	}
	return n, err
}

func (o Opening) identities() ([]age.Identity, error) {
	switch {
	case o.PassphraseFile != "" && o.IdentityFile != "":
		return nil, errors.New("give a private key or a passphrase to open it, and not both")
	case o.PassphraseFile != "":
		passphrase, err := readPassphrase(o.PassphraseFile)
		if err != nil {
			return nil, err
		}
		key, err := age.NewScryptIdentity(passphrase)
		return []age.Identity{key}, err
	case o.IdentityFile == "":
		return nil, errors.New("it is encrypted: give the private key that it was made for, or the file with its passphrase")
	}
	text, err := readSecret(o.IdentityFile)
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("-----BEGIN")) {
		key, err := agessh.ParseIdentity(text)
		if err != nil {
			return nil, fmt.Errorf("%s is not a private SSH key without a passphrase of the kinds ed25519 and rsa", o.IdentityFile)
		}
		return []age.Identity{key}, nil
	}
	keys, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s holds no private key of age (AGE-SECRET-KEY-1…)", o.IdentityFile)
	}
	return keys, nil
}
