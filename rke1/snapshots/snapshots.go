// Package snapshots is the archives of etcd on hosts: what they are called, what is in them, and which of several hosts has
// the one to restore. What takes and restores them is rke1/engine's.
//
// Wire source: rancher/rke-tools etcd-backup (directory, names of archives and of their members).
package snapshots

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
)

// Dir is where a host keeps snapshots.
const Dir = "/opt/rke/etcd-snapshots"

var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:@+-]{0,199}$`)

// Name is the name of a snapshot that is taken at a time, as the rke CLI gives it; safe leaves out ":", which
// some file systems cannot have.
func Name(now time.Time, safe bool) string {
	name := "rke_etcd_snapshot_" + now.UTC().Format(time.RFC3339)
	if safe {
		name = strings.ReplaceAll(name, ":", "-")
	}
	return name
}

// CheckName refuses a name that cannot be a file's or would be read as something else.
func CheckName(name string) error {
	if !names.MatchString(name) {
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
	// State says that the cluster's state is in it.
	State bool
	// Broken says that there is an archive that cannot be opened.
	Broken bool
}

// inspect looks at an archive; its output is for readSnapshot.
const inspect = `cd "$2" 2>/dev/null || exit 0
f="$1"
for other in *.zip; do [ -e "$other" ] && [ "$other" != "$f.zip" ] && echo "other ${other%.zip}"; done
if [ -e "$f.zip" ]; then
	if ! unzip -p "$f.zip" >/dev/null 2>&1; then echo broken; exit 0; fi
	echo "size $(wc -c <"$f.zip")"
	[ "$(unzip -p "$f.zip" "*backup/$f" 2>/dev/null | head -c 1 | wc -c)" -eq 0 ] || echo "sum $(unzip -p "$f.zip" "*backup/$f" | sha256sum | cut -d ' ' -f 1)"
	[ "$(unzip -p "$f.zip" "*kubernetes/$f.rkestate" 2>/dev/null | head -c 1 | wc -c)" -eq 0 ] || echo state
elif [ -s "$f" ]; then
	echo "size $(wc -c <"$f")"
	echo "sum $(sha256sum "$f" | cut -d ' ' -f 1)"
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

// Inspect looks for a snapshot on a host: what there is of it, nil being nothing, and the names of others.
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
if [ -e "$1.zip" ]; then unzip -p "$1.zip" "*backup/$1" >"$1.new"; mv "$1.new" "$1"; fi
sha256sum "$1" | cut -d ' ' -f 1`

// Unpack puts etcd's data beside the archive on a host, under the snapshot's name. They must have a sum.
func Unpack(ctx context.Context, h *onhost.Host, tools Tools, name, sum string) error {
	p := tools("etcd-extract-snapshot", []string{Dir + ":" + Dir}, unpack, "unpack", name, Dir)
	output, err := h.Run(ctx, onhost.Once{Process: p, Limit: Limit})
	if err != nil {
		return fmt.Errorf("unpack snapshot %s: %w", name, err)
	}
	if len(output) == 0 || output[len(output)-1] != sum {
		return fmt.Errorf("snapshot %s on host %s was unpacked to something else: see whether the disk is full", name, h.Address)
	}
	return nil
}

// Limit bounds one command with a snapshot.
const Limit = 30 * time.Minute

// DifferError is that hosts have different snapshots under one name.
type DifferError struct {
	Name string
	// Sums are those of etcd's data in them, by host.
	Sums map[string]string
}

func (e *DifferError) Error() string {
	var hosts []string
	for _, address := range slices.Sorted(maps.Keys(e.Sums)) {
		hosts = append(hosts, fmt.Sprintf("%s has %.12s", address, e.Sums[address]))
	}
	return fmt.Sprintf("etcd snapshots are not consistent: under the name %s %s. Members that restore different data never agree: keep the archive "+
		"of one host in %s and move the others away; it is copied from there", e.Name, strings.Join(hosts, ", "), Dir)
}

// Choose decides where the snapshot comes from. others are the names of what else there is.
func Choose(name string, found map[string]*Snapshot, others []string) (from string, err error) {
	sums := map[string]string{}
	var broken []string
	for _, address := range slices.Sorted(maps.Keys(found)) {
		switch s := found[address]; {
		case s == nil:
		case s.Broken:
			broken = append(broken, address)
		default:
			sums[address] = s.Sum
			if from == "" || s.State && !found[from].State {
				from = address
			}
		}
	}
	for _, sum := range sums {
		if sum != sums[from] {
			return "", &DifferError{Name: name, Sums: sums}
		}
	}
	if from == "" {
		text := fmt.Sprintf("no etcd host has snapshot %s", name)
		if len(broken) > 0 {
			text = fmt.Sprintf("the archive of snapshot %s cannot be opened on %s", name, strings.Join(broken, ", "))
		}
		if len(others) > 0 {
			text += "; there are " + strings.Join(others, ", ")
		}
		return "", errors.New(text)
	}
	return from, nil
}
