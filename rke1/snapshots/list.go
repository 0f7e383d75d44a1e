// The archives that a host has.

package snapshots

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/state"
)

// Archive is an archive somewhere, unopened.
type Archive struct {
	Name string // of the snapshot
	Size int64  // bytes
	// Changed is when it was written, by the clock of the place.
	Changed time.Time
}

const (
	// listed has a line for each archive: size, seconds since 1970, name.
	listed = `: >/tmp/list
cd "$1" 2>/dev/null || exit 0
for f in *.zip; do [ -e "$f" ] && echo "$(wc -c <"$f") $(date -r "$f" +%s) ${f%.zip}" >>/tmp/list; done
exit 0`
	// maxList bounds it, in bytes.
	maxList = 1 << 20
)

// List lists the archives of a host, by name. The error is that of the host.
func List(ctx context.Context, h *onhost.Host, tools Tools) ([]Archive, error) {
	p := tools("etcd-checksum-checker", []string{Dir + ":" + Dir}, listed, "list", Dir)
	text, err := h.Fetch(ctx, onhost.Once{Process: p}, "/tmp/list", maxList)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	return readList(string(text)), nil
}

func readList(text string) []Archive {
	var all []Archive
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(parts) != 3 {
			continue
		}
		size, bad := strconv.ParseInt(parts[0], 10, 64)
		seconds, worse := strconv.ParseInt(parts[1], 10, 64)
		if bad == nil && worse == nil {
			all = append(all, Archive{Name: parts[2], Size: size, Changed: time.Unix(seconds, 0)})
		}
	}
	return all
}

// newest leaves the state in the newest archive that has one, after a line as those of a list.
const newest = `: >/tmp/newest
cd "$1" 2>/dev/null || exit 0
ls -t | while read -r f; do
	case "$f" in *.zip) ;; *) continue ;; esac
	name="${f%.zip}"
	unzip -p "$f" "*kubernetes/$name.rkestate" >/tmp/state 2>/dev/null
	[ -s /tmp/state ] || continue
	{ echo "$(wc -c <"$f") $(date -r "$f" +%s) $name"; cat /tmp/state; } >/tmp/newest
	break
done
exit 0`

// WithState is an archive and the state of the cluster in it.
type WithState struct {
	Archive
	State []byte
}

// Newest is the newest archive of a host with the cluster's state in it; nil when there is none. Nothing is made in the directory, nor the
// directory itself. The error is that of the host.
func Newest(ctx context.Context, h *onhost.Host, tools Tools) (*WithState, error) {
	const above = "/opt" // Docker makes directories that a bind names
	p := tools("etcd-extract-statefile", []string{above + ":" + above + ":ro"}, newest, "newest", Dir)
	text, err := h.Fetch(ctx, onhost.Once{Process: p, Limit: Limit}, "/tmp/newest", state.MaxSize)
	if err != nil {
		return nil, fmt.Errorf("look for the newest snapshot: %w", err)
	}
	return readNewest(text), nil
}

func readNewest(text []byte) *WithState {
	line, rest, _ := bytes.Cut(text, []byte("\n"))
	all := readList(string(line))
	if len(all) != 1 {
		return nil
	}
	return &WithState{Archive: all[0], State: rest}
}
