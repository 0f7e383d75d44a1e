// Where the files of a cluster are, and reading and writing its state there.

package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/rke1/pki"
)

// Files are the files of one cluster, all beside its config.
type Files struct {
	// Config is cluster.yml. State is cluster.rkestate, Kubeconfig kube_config_cluster.yml, and
	// Certificates cluster_certs, a directory for certificates of an outside authority.
	Config, State, Kubeconfig, Certificates string
}

// FilesOf are those of a config file: rancher.yml has rancher.rkestate. A path without a directory
// gets "./" before it, as the rke CLI writes it into the state.
func FilesOf(cfg string) Files {
	dir, base := filepath.Dir(cfg)+"/", filepath.Base(cfg)
	stem := dir + strings.TrimSuffix(base, filepath.Ext(base))
	return Files{Config: cfg, State: stem + ".rkestate", Kubeconfig: dir + "kube_config_" + base, Certificates: stem + "_certs"}
}

const (
	backupMark = ".bak-"
	backupTime = "20060102T150405.000000Z"
	// keepBackups is how many states before the last are kept: some five runs.
	keepBackups = 10
)

// Backups are the states that were at a path before, the latest first. A directory that cannot be read is an error.
func Backups(path string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("look for backups of the state: %w", err)
	}
	var all []string
	for _, e := range entries {
		if at, found := strings.CutPrefix(e.Name(), filepath.Base(path)+backupMark); found {
			if _, err := time.Parse(backupTime, at); err == nil {
				all = append(all, filepath.Join(filepath.Dir(path), e.Name()))
			}
		}
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all, nil
}

// Load reads and checks the state of a cluster. Without a file the error is fs.ErrNotExist, unless there
// is the kubeconfig of a cluster beside the config: that cluster would be lost by making a new one.
// Every other error says what is wrong and where a good state may be. The texts
// are keys that this program does not know and would leave out when it writes.
func Load(f Files, a Against) (*State, []string, error) {
	b, err := durable.ReadFile(f.State, MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		if _, other := os.Stat(f.Kubeconfig); other == nil {
			return nil, nil, fmt.Errorf("%s is missing, and %s says that there is a cluster: %s; for a new cluster, move the kubeconfig away", f.State, f.Kubeconfig, wayOut(f.State, a))
		}
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the state: %w", err)
	}
	s, err := Decode(b)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: it may be cut off; %s", f.State, err, wayOut(f.State, a))
	}
	if err := s.Check(a); err != nil {
		return nil, nil, fmt.Errorf("%s: %w\n%s", f.State, err, wayOut(f.State, a))
	}
	unknown, err := Unknown(b, s)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.State, err)
	}
	return s, unknown, nil
}

// wayOut says where a good state may be: the latest good backup, if there is one.
func wayOut(path string, a Against) string {
	text := "take the state from the Secret " + SecretNamespace + "/" + SecretName + " of the cluster, or from an etcd snapshot"
	backups, err := Backups(path)
	if err != nil {
		return text
	}
	for _, backup := range backups {
		if b, err := durable.ReadFile(backup, MaxSize); err == nil {
			if s, err := Decode(b); err == nil && s.Check(a) == nil {
				return "the last good state is " + backup + "; else " + text
			}
		}
	}
	return text
}

// WriteOptions are how a state is written.
type WriteOptions struct {
	// Now is the time in the name of the backup.
	Now time.Time
	// OwnCertificates is that of Against.
	OwnCertificates bool
	// Replace lets a state take the place of one with another CA: that of a snapshot from before
	// a rotation.
	Replace bool
}

// Write puts a state at a path, mode 0600, so that after a crash at any instant there is the one
// before or this one, whole. The one before is kept beside it as <path>.bak-<time>, and the latest ten
// of those stay. A state that Check refuses is not written, nor one over a file that is not a
// state or that is of another CA. An equal state is not written again. A path must not be written
// by two callers at once.
func Write(path string, s *State, o WriteOptions) error {
	if err := s.Check(Against{OwnCertificates: o.OwnCertificates}); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	data, err := Encode(s)
	if err != nil {
		return err
	}
	if len(data) > MaxSize {
		return fmt.Errorf("write %s: %d bytes are more than the %d that would be read", path, len(data), MaxSize)
	}
	before, err := durable.ReadFile(path, MaxSize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if there := err == nil; there {
		if bytes.Equal(before, data) {
			return nil
		}
		old, err := Decode(before)
		if err != nil || old.Desired.Certificates[pki.CA].CertificatePEM == "" {
			return fmt.Errorf("write %s: there is something that is not a state, which is not overwritten: move it away", path)
		}
		if err := s.MayReplace(old); err != nil && !o.Replace {
			return fmt.Errorf("write %s: %w: move it away if that is meant", path, err)
		}
	}
	for _, step := range steps(path, before, data, o.Now) {
		if err := step(); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

// steps are what Write does, in order; after each of them a good state is at the path. Old backups go
// first, so that there is room.
func steps(path string, before, data []byte, now time.Time) []func() error {
	write := func() error { return durable.WriteFile(path, data, 0o600) }
	if before == nil {
		return []func() error{write}
	}
	return []func() error{
		func() error { return prune(path) },
		func() error { return keep(path, before, now) },
		write,
	}
}

// prune leaves room for one more backup.
func prune(path string) error {
	backups, err := Backups(path)
	if err != nil {
		return err
	}
	for _, old := range backups[min(len(backups), keepBackups-1):] {
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove an old backup: %w", err)
		}
	}
	return nil
}

// keep puts what is there beside it.
func keep(path string, content []byte, now time.Time) error {
	if err := durable.WriteFile(path+backupMark+now.UTC().Format(backupTime), content, 0o600); err != nil {
		return fmt.Errorf("keep the state before: %w", err)
	}
	return nil
}
