package service

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// checkKept refuses a data directory that would go with its container. The image of the server says by DROVER_CONTAINER that it is one. In an
// image for servers of another kind a forgotten volume has cost people all their data.
func checkKept(dir string, environ func(string) string) error {
	if environ("DROVER_CONTAINER") == "" {
		return nil
	}
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("look whether the data directory outlives this container: %w", err)
	}
	defer file.Close()
	at, kind, err := mountOf(file, dir)
	if err != nil {
		return fmt.Errorf("look whether the data directory outlives this container: %w", err)
	}
	return outlives(dir, at, kind)
}

// outlives says of a directory that is on the file system of a type, mounted at a place, why it goes with its container; nil when it does not.
func outlives(dir, at, kind string) error {
	switch {
	case at == "/":
		return fmt.Errorf("%s is no volume, and what the server keeps would go with this container: mount one there (-v drover:%s), or start with --ephemeral if that is meant", dir, dir)
	case kind == "tmpfs" || kind == "ramfs":
		return fmt.Errorf("%s is in memory (%s at %s), and what the server keeps would go with this container: mount a volume there (-v drover:%s), or start with --ephemeral if that is meant", dir, kind, at, dir)
	}
	return nil
}

// mountOf finds where the file system of a directory is mounted, and its type, in what Linux writes about mounts (proc_pid_mountinfo(5)).
func mountOf(mounts io.Reader, dir string) (at, kind string, err error) {
	dir = filepath.Clean(dir)
	at = "/"
	lines := bufio.NewScanner(mounts)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 {
			return "", "", fmt.Errorf("a line of mountinfo is of another form: %.100q", lines.Text())
		}
		point := unescape.Replace(fields[4])
		if point != dir && point != "/" && !strings.HasPrefix(dir, point+"/") || len(point) < len(at) {
			continue
		}
		at, kind = point, strings.Fields(after + " ?")[0] // a later mount hides one before
	}
	return at, kind, lines.Err()
}

// unescape undoes how mountinfo writes blanks.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
