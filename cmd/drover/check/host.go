package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// clock finds a clock that is before this program was made: certificates would not count yet.
func clock(_ context.Context, in Input) []Finding {
	now := in.Now()
	info, err := os.Stat(in.Program)
	if err == nil && now.Before(info.ModTime().Add(-24*time.Hour)) {
		return one(Finding{"clock", Error, fmt.Sprintf("the clock says %s, which is before this program was put here (%s)", now.UTC().Format(time.RFC3339), info.ModTime().UTC().Format(time.RFC3339)),
			"set the clock, and have it kept (timedatectl set-ntp true): certificates count only within their times"})
	}
	return one(Finding{"clock", OK, "the clock says " + now.UTC().Format(time.RFC3339), ""})
}

// files finds a data directory that the server could not use: another user's, one that others may look into, or one without its keys.
func files(_ context.Context, in Input) []Finding {
	info, err := os.Stat(in.DataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return one(Finding{"data directory", OK, in.DataDir + " is not there yet: the first start makes it", ""})
	case err != nil:
		return one(Finding{"data directory", Error, err.Error(), "run this as root, or as the user of the server"})
	case !info.IsDir():
		return one(Finding{"data directory", Error, in.DataDir + " is no directory", "name another one (data-dir)"})
	}
	if of, others := othersOwn(info); others {
		return one(Finding{"data directory", Error, fmt.Sprintf("%s belongs to user %d, and this is user %d", in.DataDir, of, os.Geteuid()), "run the server as that user, or chown -R the directory"})
	}
	var all []Finding
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		all = append(all, Finding{"data directory", Warning, fmt.Sprintf("%s has mode %04o: other users of this host can look into it", in.DataDir, mode), "chmod 700 " + in.DataDir})
	}
	key := in.EncryptionKeyFile
	if key == "" {
		key = filepath.Join(in.DataDir, "encryption.key")
	}
	if there(filepath.Join(in.DataDir, "etcd")) && !there(key) {
		all = append(all, Finding{"key file", Error, "there is a store in " + in.DataDir + ", and its key file " + key + " is missing: its secrets cannot be read", "copy the key file back from where it is kept (docs/how-to/back-up-the-server.md)"})
	}
	if ca := filepath.Join(in.DataDir, "tls"); there(filepath.Join(ca, "ca.crt")) != there(filepath.Join(ca, "ca.key")) {
		all = append(all, Finding{"authority", Error, "of the authority in " + ca + " one of ca.crt and ca.key is missing", "copy both back from where they are kept: hosts that have joined trust no other"})
	}
	if len(all) == 0 {
		all = one(Finding{"data directory", OK, in.DataDir, ""})
	}
	return all
}

func there(path string) bool { _, err := os.Stat(path); return err == nil }

// othersOwn says that a file is another user's, for all but root.
func othersOwn(info fs.FileInfo) (of int, others bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), int(stat.Uid) != os.Geteuid() && os.Geteuid() != 0
}

// What a disk has to have. Etcd's own advice is 10 ms for the slowest of a hundred writes; above a tenth of a second it loses its lead.
const (
	leastBytes, fewBytes = 512 << 20, 5 << 30
	leastInodes          = 10_000
	slowSync, tooSlow    = 25 * time.Millisecond, 250 * time.Millisecond
	syncs                = 40
)

// disk finds too little room, and a disk on which a durable write takes long.
func disk(ctx context.Context, in Input) []Finding {
	dir := in.DataDir
	for !there(dir) && dir != "/" {
		dir = filepath.Dir(dir)
	}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return one(Finding{"disk", Error, fmt.Sprintf("look at the disk of %s: %v", dir, err), ""})
	}
	free := int64(s.Bavail) * s.Bsize // #nosec G115 -- bytes of a disk
	says := fmt.Sprintf("%.1f GiB are free for %s", float64(free)/(1<<30), in.DataDir)
	var all []Finding
	switch {
	case free < leastBytes:
		all = append(all, Finding{"disk space", Error, says, "make room: a server on a full disk takes no changes"})
	case free < fewBytes:
		all = append(all, Finding{"disk space", Warning, says, "the store may grow to 8 GiB, and the audit log with what people do"})
	case s.Files > 0 && s.Ffree < leastInodes:
		all = append(all, Finding{"disk space", Error, fmt.Sprintf("%d inodes are free for %s", s.Ffree, in.DataDir), "remove small files"})
	default:
		all = append(all, Finding{"disk space", OK, says, ""})
	}
	info, err := os.Stat(in.DataDir)
	if err != nil || in.Running {
		return all // beside a server that works the disk is that server's
	}
	if _, others := othersOwn(info); others || free < leastBytes {
		return all // nothing can be written there, which is said already
	}
	took, err := slowest(ctx, in.DataDir)
	says = fmt.Sprintf("the slowest of %d durable writes took %s", syncs, took.Round(100*time.Microsecond))
	switch {
	case err != nil:
		all = append(all, Finding{"disk", Error, fmt.Sprintf("write to %s: %v", in.DataDir, err), "see whether it is read-only, full, or another user's"})
	case took > tooSlow:
		all = append(all, Finding{"disk", Error, says, "put the data directory on a disk of its own: etcd ends its lead when a write takes so long"})
	case took > slowSync:
		all = append(all, Finding{"disk", Warning, says, "etcd wants 10 ms: changes wait for the disk"})
	default:
		all = append(all, Finding{"disk", OK, says, ""})
	}
	return all
}

// slowest is the slowest durable write of some.
func slowest(ctx context.Context, dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, ".check-*")
	if err != nil {
		return 0, err
	}
	defer func() { f.Close(); os.Remove(f.Name()) }()
	block := make([]byte, 2300) // as an entry of etcd's log
	var all []time.Duration
	for range syncs {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		began := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil { // #nosec G115 -- a file descriptor
			return 0, err
		}
		all = append(all, time.Since(began))
	}
	return slices.Max(all), nil
}

// wantedFiles is how many descriptors a thousand hosts take several times over.
const wantedFiles = 65_536

// limits finds too few descriptors: each host has a tunnel and a watch.
func limits(context.Context, Input) []Finding {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return one(Finding{"limits", Warning, fmt.Sprintf("read the limit of open files: %v", err), ""})
	}
	says := fmt.Sprintf("%d files may be open by what is started from here; a unit has its own limit", l.Max)
	if l.Max < wantedFiles {
		return one(Finding{"limits", Warning, says, "each host takes two: start the server by the unit, or raise it (ulimit -Hn)"})
	}
	return one(Finding{"limits", OK, says, ""})
}

// port finds a port that another program has.
func port(ctx context.Context, in Input) []Finding {
	if in.Running {
		return one(Finding{"port", OK, "the server answers on " + in.Listen, ""})
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", in.Listen)
	if err != nil {
		return one(Finding{"port", Error, fmt.Sprintf("listen on %s: %v", in.Listen, err), "see who has it (ss -ltnp), or choose another (listen); below 1024 a server that is not root needs CAP_NET_BIND_SERVICE, which the unit gives"})
	}
	l.Close()
	return one(Finding{"port", OK, in.Listen + " is free", ""})
}
