// Bringing a host to a node config: certificates, files, containers.

package nodeconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/drover-project/drover/plans/apply/hostfs"
)

// WriteFiles brings certificates and files of the host to what is wanted: 0600, and
// directories that have to be made for certificates 0700. renewed says whether a certificate changed.
// What cannot be written keeps nothing else from being written.
func WriteFiles(host hostfs.FS, wanted *NodeConfig) (renewed bool, err error) {
	contents, err := wanted.Contents()
	if err != nil {
		return false, fmt.Errorf("node config: %w", err)
	}
	var faults []error
	for _, f := range contents {
		if err := closedParent(host, f); err != nil {
			faults = append(faults, err)
		}
		done, err := host.Bring(hostfs.Entry{Name: f.Path, Kind: hostfs.File, Content: f.Bytes, Mode: 0o600, Owner: hostfs.Owner{UID: -1, GID: -1}})
		if err != nil {
			faults = append(faults, fmt.Errorf("write %s: %w", f.Path, err))
			continue
		}
		renewed = renewed || f.Certificate && (done.Action == hostfs.Create || done.Action == hostfs.Replace)
	}
	return renewed, errors.Join(faults...)
}

// closedParent makes the directory of a certificate so that only root can look into it.
// A directory that is there may be others' too and stays as it is.
func closedParent(host hostfs.FS, f Content) error {
	dir := path.Dir(f.Path)
	if _, err := os.Lstat(filepath.Join("/", host.Root, dir)); !f.Certificate || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := host.Bring(hostfs.Entry{Name: dir, Kind: hostfs.Dir, Mode: 0o700, Owner: hostfs.Owner{UID: -1, GID: -1}}); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	return nil
}

// Apply looks, plans and performs. A process that cannot be brought about keeps no other
// from its due; the errors of all are joined. It returns what it performed or tried to.
func (e *Engine) Apply(ctx context.Context, wanted *NodeConfig, renewed bool) ([]Action, error) {
	found, err := e.Look(ctx, wanted)
	if err != nil {
		return nil, err
	}
	plan := Plan(wanted, found, renewed)
	var faults []error
	failed := map[string]bool{}
	for _, a := range plan {
		if ctx.Err() != nil {
			return plan, errors.Join(append(faults, ctx.Err())...)
		}
		if failed[a.Name] {
			continue // what is left over may still be needed
		}
		if err := e.Perform(ctx, a); err != nil {
			failed[a.Name] = true
			faults = append(faults, err)
		}
	}
	return plan, errors.Join(faults...)
}
