// What proves who logs in: keys, certificates, an agent; and what a refused login means.

package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// maxKeyFile bounds a file with a key or a certificate, in bytes.
const maxKeyFile = 64 << 10

// LoginError is that no login on a host succeeded: it cannot be reached, its key is not
// the known one, or it does not accept the user.
type LoginError struct {
	Host string
	Err  error
}

func (e *LoginError) Error() string {
	return "log in on host " + e.Host + " over SSH: " + e.Err.Error()
}
func (e *LoginError) Unwrap() error { return e.Err }

// methods is how to prove who logs in. done ends what the handshake needs.
func (s *SSH) methods(ctx context.Context, l Login) (m []ssh.AuthMethod, done func(), err error) {
	if l.Agent {
		return s.fromAgent(ctx)
	}
	signer, err := l.signer()
	if err != nil {
		return nil, nil, err
	}
	return []ssh.AuthMethod{ssh.PublicKeys(signer)}, func() {}, nil
}

func (s *SSH) fromAgent(ctx context.Context) ([]ssh.AuthMethod, func(), error) {
	socket := s.options.AgentSocket
	if socket == "" {
		return nil, nil, errors.New("ssh_agent_auth is on, but SSH_AUTH_SOCK names no agent: start one (ssh-agent) and add the key (ssh-add)")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the SSH agent at SSH_AUTH_SOCK: %w", err)
	}
	return []ssh.AuthMethod{ssh.PublicKeysCallback(agent.NewClient(conn).Signers)}, func() { conn.Close() }, nil
}

// signer is the private key, with its certificate when there is one.
func (l Login) signer() (ssh.Signer, error) {
	text, name, err := textOf(l.Key, l.KeyPath, "ssh_key")
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, errors.New("no key: give ssh_key_path, ssh_key or ssh_agent_auth")
	}
	signer, err := ssh.ParsePrivateKey([]byte(text))
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, fmt.Errorf("the key of %s has a passphrase: add it to an agent (ssh-add) and set ssh_agent_auth: true", name)
	case err != nil:
		// What the parser says of a text that is not a key could hold a part of it.
		return nil, fmt.Errorf("what %s holds is not a private key in PEM", name)
	}
	return l.certified(signer)
}

func (l Login) certified(signer ssh.Signer) (ssh.Signer, error) {
	text, name, err := textOf(l.Cert, l.CertPath, "ssh_cert")
	if err != nil || text == "" {
		return signer, err
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("what %s holds is not an SSH certificate: %w", name, err)
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return nil, fmt.Errorf("what %s holds is a public key, not an SSH certificate", name)
	}
	both, err := ssh.NewCertSigner(cert, signer)
	if err != nil {
		return nil, fmt.Errorf("the certificate of %s is not one of the key: %w", name, err)
	}
	return both, nil
}

// textOf is a text given inline or in a file; name is where it came from, for sentences.
func textOf(inline, path, field string) (text, name string, err error) {
	if inline != "" {
		return inline, field, nil
	}
	if path == "" {
		return "", field, nil
	}
	path, err = expand(path)
	if err != nil {
		return "", "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", "", fmt.Errorf("read %s_path: %w", field, err)
	}
	if info.Size() > maxKeyFile {
		return "", "", fmt.Errorf("%s_path: %s has %d bytes, more than %d: it is not a key", field, path, info.Size(), maxKeyFile)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", "", fmt.Errorf("read %s_path: %w", field, err)
	}
	return string(b), path, nil
}

// expand puts the home directory for "~/", as shells do.
func expand(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~/")
	if !ok {
		return path, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the home directory for %s: %w", path, err)
	}
	return filepath.Join(home, rest), nil
}

// loginAdvice adds what a person can do about a refused login.
func loginAdvice(l Login, trusted bool, err error) error {
	// What x/crypto/ssh puts before the sentence of a key says nothing more.
	if unknown := new(UnknownKeyError); errors.As(err, &unknown) {
		return unknown
	}
	if changed := new(ChangedKeyError); errors.As(err, &changed) {
		return changed
	}
	if trusted {
		return fmt.Errorf("user %s is not accepted: add the public key to ~%s/.ssh/authorized_keys there: %w", l.User, l.User, err)
	}
	return err
}
