package check

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

// Upgrade is what is looked at before a server is upgraded to another release.
type Upgrade struct {
	Client *client.Client
	// To is the release that this program is of.
	To string
	// DataDir is that of the server, where it is on this host; elsewhere it is not looked at.
	DataDir string
	Now     func() time.Time
}

// Run asks the server that runs, and looks at the disk, where it is this host's. The errors are those of Client.Get, such as that the server cannot be reached.
func (u Upgrade) Run(ctx context.Context) ([]Finding, error) {
	var version struct {
		Value string `json:"value"`
	}
	if err := u.Client.Get(ctx, "/v3/settings/server-version", &version); err != nil {
		return nil, fmt.Errorf("ask the server for its release: %w", err)
	}
	all := []Finding{Releases(release(version.Value), u.To)}
	for _, look := range []func(context.Context) (Finding, error){u.backup, u.operations, u.agents} {
		found, err := look(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	if room, ok := u.room(); ok {
		all = append(all, room)
	}
	return all, nil
}

// release is the release of drover in the setting server-version, which begins with the version of Rancher that clients take the server for:
// v2.15.0-drover.0.1.0 is v0.1.0.
func release(version string) string {
	if _, own, ok := strings.Cut(version, "-drover."); ok {
		return "v" + own
	}
	return version
}

// Releases judges the step from a release to another. Of a build by hand nothing is known.
func Releases(from, to string) Finding {
	const name = "release"
	f, known := minorOf(from)
	t, knownTo := minorOf(to)
	says := fmt.Sprintf("%s runs, and this program is %s", from, to)
	switch {
	case !known || !knownTo:
		return Finding{name, Warning, says + ": of a build by hand it is not known what it is newer than", "take a release"}
	case from == to:
		return Finding{name, Warning, says, "there is nothing to upgrade"}
	case t[0] != f[0]:
		return Finding{name, Warning, says + ", with another major version", "read CHANGES.md of the release first"}
	case t[1] > f[1]+1:
		return Finding{name, Error, says + ": a minor release would be left out", fmt.Sprintf("go by v%d.%d first", f[0], f[1]+1)}
	case t[1] < f[1]-1:
		return Finding{name, Error, says + ", which is more than one minor release back", "restore a backup that it has made (drover server restore)"}
	case t[1] < f[1]:
		return Finding{name, Warning, says + ", which is older: it starts unless the data have changed in a way that it cannot read, which it then says", "keep the copy in before-upgrade"}
	}
	return Finding{name, OK, says, ""}
}

// minorOf are the numbers of the major and the minor version; false for a version that is not of the form of a release.
func minorOf(version string) (n [2]int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if !strings.HasPrefix(version, "v") || len(parts) != 3 || version == "v0.0.0-dev" {
		return n, false
	}
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(parts[i]); err != nil || n[i] < 0 {
			return n, false
		}
	}
	return n, true
}

// freshBackup is how old the newest backup may be.
const freshBackup = 24 * time.Hour

func (u Upgrade) backup(ctx context.Context) (Finding, error) {
	const name, do = "backup", "make one: drover server backup"
	var s apitypes.BackupStatus
	if err := u.Client.Get(ctx, "/v1-drover/backups", &s); err != nil {
		return Finding{}, fmt.Errorf("ask how the backups stand: %w", err)
	}
	if len(s.Files) == 0 {
		return Finding{name, Warning, "the server has made no backup by itself; a copy of the store is made before the first start of another release", do}, nil
	}
	age := u.Now().Sub(s.Files[0].Made).Round(time.Minute)
	if age > freshBackup {
		return Finding{name, Warning, fmt.Sprintf("the newest backup is %s old", age), do}, nil
	}
	return Finding{name, OK, fmt.Sprintf("the newest backup is %s old", max(age, 0)), ""}, nil
}

func (u Upgrade) operations(ctx context.Context) (Finding, error) {
	const name = "operations"
	all, err := client.List[apitypes.OperationSummary](ctx, u.Client, "/v1-drover/operations")
	if err != nil {
		return Finding{}, fmt.Errorf("list the operations: %w", err)
	}
	var running []string
	for _, o := range all {
		if !o.State.Ended() {
			running = append(running, o.ID)
		}
	}
	if len(running) > 0 {
		return Finding{name, Warning, fmt.Sprintf("%d are under way: %s", len(running), some(running)), "they go on with the new release; to wait for them: drover operations show NAME -w"}, nil
	}
	return Finding{name, OK, "none is under way", ""}, nil
}

// agents looks for agents with which the new release was not tested: those more than two minor releases older than it.
func (u Upgrade) agents(ctx context.Context) (Finding, error) {
	const name = "agents"
	machines, err := client.List[apitypes.Machine](ctx, u.Client, "/v1-drover/machines")
	if err != nil {
		return Finding{}, fmt.Errorf("list the machines: %w", err)
	}
	to, known := minorOf(u.To)
	var old []string
	for _, m := range machines {
		if is, ok := minorOf(m.Agent); known && ok && (is[0] != to[0] || to[1]-is[1] > 2) {
			old = append(old, m.Name)
		}
	}
	if len(old) > 0 {
		return Finding{name, Warning, fmt.Sprintf("%d have an agent more than two minor releases older than this one: %s", len(old), some(old)), "update them first (docs/how-to/replace-the-agent.md)"}, nil
	}
	return Finding{name, OK, fmt.Sprintf("of %d machines none has an agent that is too old", len(machines)), ""}, nil
}

// some are the first few names of many.
func some(names []string) string {
	if more := len(names) - 3; more > 0 {
		return strings.Join(names[:3], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(names, ", ")
}

// room looks whether the copy of the store has room that is made before the first start; false where the store is not on this host.
func (u Upgrade) room() (Finding, bool) {
	var size int64
	err := filepath.WalkDir(filepath.Join(u.DataDir, "etcd"), func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err == nil { // a log that the store has dropped meanwhile
			size += info.Size()
		}
		return nil
	})
	var disk unix.Statfs_t
	if err != nil || unix.Statfs(u.DataDir, &disk) != nil {
		return Finding{}, false
	}
	free := int64(disk.Bavail) * disk.Bsize // #nosec G115 -- bytes of a disk
	says := fmt.Sprintf("the store has %d MiB, and %d MiB are free for the copy of it", size>>20, free>>20)
	if free < size+64<<20 {
		return Finding{"disk space", Error, says, "make room: the new release does not start without the copy"}, true
	}
	return Finding{"disk space", OK, says, ""}, true
}
