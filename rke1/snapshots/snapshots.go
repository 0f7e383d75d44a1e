// Package snapshots is the archives of etcd on hosts: what they are called, what is in them, and which of several hosts has
// the one to restore. What takes and restores them is rke1/engine's.
//
// Wire source: rancher/rke-tools etcd-backup (directory, names of archives and of their members).
package snapshots

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
)

// Dir is where a host keeps snapshots.
const Dir = "/opt/rke/etcd-snapshots"

var names = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,199}$`) })

// Name is the name of a snapshot that is taken at a time, as the rke CLI gives it; safe leaves out ":", which
// some file systems cannot have.
func Name(now time.Time, safe bool) string {
	name := "rke_etcd_snapshot_" + now.UTC().Format(time.RFC3339)
	if safe {
		name = strings.ReplaceAll(name, ":", "-")
	}
	return name
}

// Rolling is the name of a snapshot that is taken at a time by a schedule, which is how the schedule knows when its time has come:
// 2026-01-02T15:04:05Z_etcd. b may be nil. Source: rancher/rke-tools, rolling backups.
func Rolling(now time.Time, b *config.BackupConfig) string {
	name := now.UTC().Format(time.RFC3339) + "_etcd"
	if b != nil && b.SafeTimestamp {
		name = strings.ReplaceAll(name, ":", "-")
	}
	return name
}

// CheckName refuses a name that cannot be a file's or would be read as something else.
func CheckName(name string) error {
	if !names().MatchString(name) {
		return fmt.Errorf("snapshot %q is not a valid name: it begins with a letter or a digit, and has letters, digits and _.:@+- after it, at most 200", name)
	}
	return nil
}

// Snapshot is what a host has of a snapshot.
type Snapshot struct {
	Host string
	// Size is the archive's, in bytes; Sum is the SHA-256 of etcd's data in it, which differs among members that were
	// asked at different times.
	Size int64
	Sum  string
	// Archive says that it is packed, as all are but very old ones. State says that the cluster's state is in it.
	Archive, State bool
	// Broken says that there is an archive that cannot be opened.
	Broken bool
}

// inspect looks at an archive; its output is for readSnapshot. Data count when the SHA-256 at their end is theirs: etcd sent them whole.
const inspect = `cd "$2" 2>/dev/null || exit 0
f="$1"
for other in *.zip; do [ -e "$other" ] && [ "$other" != "$f.zip" ] && echo "other ${other%.zip}"; done
member() { unzip -p "$f.zip" "*$1" 2>/dev/null; }
plain() { cat "$f"; }
sum() {
	size=$("$@" | wc -c)
	[ $((size % 512)) -eq 32 ] || return 0
	[ "$("$@" | head -c $((size - 32)) | sha256sum | cut -d ' ' -f 1)" = "$("$@" | tail -c 32 | od -An -v -tx1 | tr -d ' \n')" ] || return 0
	echo "sum $("$@" | sha256sum | cut -d ' ' -f 1)"
}
if [ -e "$f.zip" ]; then
	if ! unzip -p "$f.zip" >/dev/null 2>&1; then echo broken; exit 0; fi
	echo archive
	echo "size $(wc -c <"$f.zip")"
	sum member "backup/$f"
	[ "$(member "kubernetes/$f.rkestate" | head -c 1 | wc -c)" -eq 0 ] || echo state
elif [ -s "$f" ]; then
	echo "size $(wc -c <"$f")"
	sum plain
fi`

// readSnapshot reads what inspect found; nil is no snapshot of that name, and others are those of other names.
func readSnapshot(address string, output []string) (found *Snapshot, others []string) {
	s := Snapshot{Host: address}
	for _, line := range output {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "other":
			others = append(others, value)
		case "broken":
			s.Broken = true
		case "size":
			s.Size, _ = strconv.ParseInt(value, 10, 64) // the shell counted
		case "sum":
			s.Sum = value
		case "archive":
			s.Archive = true
		case "state":
			s.State = true
		}
	}
	if s.Size == 0 && !s.Broken {
		return nil, others
	}
	s.Broken = s.Broken || s.Sum == ""
	return &s, others
}

// Tools makes a container of a host that runs a script, with directories of the host; its image has a shell and unzip.
type Tools func(name string, binds []string, script string, args ...string) nodeconfig.Process

// Inspect looks for a snapshot on a host: what there is of it, nil being nothing, and the names of others. The error is that of the host.
func Inspect(ctx context.Context, h *onhost.Host, tools Tools, name string) (found *Snapshot, others []string, err error) {
	p := tools("etcd-checksum-checker", []string{Dir + ":" + Dir}, inspect, "inspect", name, Dir)
	output, err := h.Run(ctx, onhost.Once{Process: p, Limit: Limit})
	if err != nil {
		return nil, nil, fmt.Errorf("look for snapshot %s: %w", name, err)
	}
	found, others = readSnapshot(h.Address, output)
	return found, others, nil
}

const unpack = `set -e
cd "$2"
if [ -e "$1.zip" ]; then unzip -p "$1.zip" "*backup/$1" >"$1.new"; mv "$1.new" "$1"; fi`

const sum = `cd "$2" && sha256sum "$1" | cut -d ' ' -f 1`

// Unpack puts etcd's data beside the archive on a host, under the snapshot's name, and says whether they are what was found. The errors are those of
// the host and of Verify.
func (s *Snapshot) Unpack(ctx context.Context, h *onhost.Host, tools Tools, name string) error {
	p := tools("etcd-extract-snapshot", []string{Dir + ":" + Dir}, unpack, "unpack", name, Dir)
	if _, err := h.Run(ctx, onhost.Once{Process: p, Limit: Limit}); err != nil {
		return fmt.Errorf("unpack snapshot %s: %w", name, err)
	}
	return s.Verify(ctx, h, tools, name)
}

// Verify says whether the data that are on a host, unpacked, are those of the snapshot. The error is that of the host, or says that the data are
// others.
func (s *Snapshot) Verify(ctx context.Context, h *onhost.Host, tools Tools, name string) error {
	p := tools("etcd-checksum-checker", []string{Dir + ":" + Dir}, sum, "sum", name, Dir)
	output, err := h.Run(ctx, onhost.Once{Process: p, Limit: Limit})
	if err != nil {
		return fmt.Errorf("check snapshot %s: %w", name, err)
	}
	if len(output) == 0 || output[len(output)-1] != s.Sum {
		return fmt.Errorf("snapshot %s on host %s did not become what it is on host %s: see whether the disk is full", name, h.Address, s.Host)
	}
	return nil
}

// Limit bounds one command with a snapshot.
const Limit = 30 * time.Minute

// Choose decides which host's snapshot is restored everywhere: one that can be read, with the state in it if there is one.
// Snapshots that several members took under one name are of one moment, but never the same bytes, and members that restore different
// ones never agree. others are the names of what else there is, for the error when there is none.
func Choose(name string, found []*Snapshot, others []string) (*Snapshot, error) {
	var best *Snapshot
	var broken []string
	for _, s := range found {
		switch {
		case s == nil:
		case s.Broken:
			broken = append(broken, s.Host)
		case best == nil, best.rank() < s.rank():
			best = s
		}
	}
	if best != nil {
		return best, nil
	}
	text := fmt.Sprintf("no etcd host has snapshot %s", name)
	if len(broken) > 0 {
		text = fmt.Sprintf("the archive of snapshot %s cannot be opened on %s", name, strings.Join(broken, ", "))
	}
	if len(others) > 0 {
		text += "; there are " + strings.Join(others, ", ")
	}
	return nil, errors.New(text)
}

// Better orders snapshots, those first that are better to restore.
func Better(a, b *Snapshot) int { return b.rank() - a.rank() }

// rank is how good a snapshot is to restore: data without an archive may be what an interrupted restore left.
func (s *Snapshot) rank() int {
	switch {
	case s.State:
		return 2
	case s.Archive:
		return 1
	}
	return 0
}
