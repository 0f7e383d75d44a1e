// The keys of hosts that are known: a host with another one is not talked to.

package dial

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// HostKeys are the keys of a known_hosts file, in OpenSSH's format.
type HostKeys struct {
	path      string
	acceptNew bool
	accepted  func(text string)

	mu    sync.Mutex
	known ssh.HostKeyCallback
}

// UnknownKeyError is that a host's key is not in the file.
type UnknownKeyError struct{ Host, Fingerprint, Path string }

func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("the host's key %s is not known: compare it with the host's own (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub there), "+
		"then add it to %s (ssh-keyscan), or give --accept-new-host-keys", e.Fingerprint, e.Path)
}

// ChangedKeyError is that a host has another key than the file says.
type ChangedKeyError struct {
	Host, Fingerprint, Path string
	Line                    int
}

func (e *ChangedKeyError) Error() string {
	return fmt.Sprintf("the host's key is %s now, which is not the one in line %d of %s: another machine may stand between; if the host was installed anew, "+
		"remove the line (ssh-keygen -R %s) and try again", e.Fingerprint, e.Line, e.Path, e.Host)
}

// KnownHosts reads a known_hosts file, which need not be there. acceptNew adds the keys of
// hosts that are not in it, and says each to accepted, for a person to read; a changed key is refused all the same.
func KnownHosts(path string, acceptNew bool, accepted func(text string)) (*HostKeys, error) {
	path, err := expand(path)
	if err != nil {
		return nil, err
	}
	k := &HostKeys{path: path, acceptNew: acceptNew, accepted: accepted}
	return k, k.read()
}

func (k *HostKeys) read() error {
	files := []string{k.path}
	if _, err := os.Stat(k.path); errors.Is(err, fs.ErrNotExist) {
		files = nil
	}
	known, err := knownhosts.New(files...)
	if err != nil {
		return fmt.Errorf("read the known hosts' keys: %w", err)
	}
	k.known = known
	return nil
}

// check is an ssh.HostKeyCallback.
func (k *HostKeys) check(host string, remote net.Addr, key ssh.PublicKey) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.known(host, remote, key)
	var mismatch *knownhosts.KeyError
	if !errors.As(err, &mismatch) {
		return err // nil, or that the key was revoked
	}
	name, fingerprint := knownhosts.Normalize(host), ssh.FingerprintSHA256(key)
	if len(mismatch.Want) > 0 {
		return &ChangedKeyError{Host: name, Fingerprint: fingerprint, Path: mismatch.Want[0].Filename, Line: mismatch.Want[0].Line}
	}
	if !k.acceptNew {
		return &UnknownKeyError{Host: name, Fingerprint: fingerprint, Path: k.path}
	}
	if err := k.add(knownhosts.Line([]string{name}, key)); err != nil {
		return err
	}
	k.accepted(fmt.Sprintf("the key %s of host %s is accepted, and is in %s now", fingerprint, name, k.path))
	return k.read()
}

func (k *HostKeys) add(line string) error {
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return fmt.Errorf("keep the host's key: %w", err)
	}
	f, err := os.OpenFile(k.path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("keep the host's key: %w", err)
	}
	if !endsALine(f) {
		line = "\n" + line
	}
	w := bufio.NewWriter(f)
	_, err = w.WriteString(line + "\n")
	if err := errors.Join(err, w.Flush(), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("keep the host's key: %w", err)
	}
	return nil
}

// endsALine says whether what is appended to a file begins a line of its own.
func endsALine(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err == nil
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] == '\n'
}

// algorithms are those of the keys that are known of a host, so that it shows one of
// them; nil (any) for a host that is not known. A host has a key of each kind, and shows
// the one that the client likes best: without this a host known by its ed25519 key would
// show another and count as changed.
func (k *HostKeys) algorithms(host string, remote net.Addr) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var mismatch *knownhosts.KeyError
	if !errors.As(k.known(host, remote, noKey{}), &mismatch) {
		return nil
	}
	var all []string
	for _, w := range mismatch.Want {
		kinds := []string{w.Key.Type()}
		if w.Key.Type() == ssh.KeyAlgoRSA {
			kinds = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, kind := range kinds {
			if !slices.Contains(all, kind) {
				all = append(all, kind)
			}
		}
	}
	return all
}

// noKey is a key that no host has; asked for, it makes knownhosts name those that it knows.
type noKey struct{}

func (noKey) Type() string                            { return "none" }
func (noKey) Marshal() []byte                         { return nil }
func (noKey) Verify(_ []byte, _ *ssh.Signature) error { return errors.New("no key") }
