package main

// rke-etcd-backup: snapshots of etcd as archives on the host.

import (
	"archive/zip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	snapshotDir = "/backup"         // the host's /opt/rke/etcd-snapshots
	stateDir    = "/etc/kubernetes" // has the state file that goes into the archive
	extractedTo = "/tmp/cluster.rkestate"
	rollingMark = "_etcd"
)

// snapshot is what the flags of a subcommand say.
type snapshot struct {
	dir, stateDir           string
	name, endpoints         string
	from, caCert, cert, key string
	once, s3                bool
	creation, retention     time.Duration
	takeSnapshot            func(ctx context.Context, s snapshot, file string) error
}

// backup runs `etcd-backup SUBCOMMAND FLAGS`.
func backup(ctx context.Context, args []string) error {
	if len(args) < 2 || args[0] != "etcd-backup" {
		return errors.New("the arguments begin with etcd-backup and save, delete, download or extractstatefile")
	}
	s := snapshot{dir: snapshotDir, stateDir: stateDir, takeSnapshot: etcdctl}
	flags := flag.NewFlagSet(args[1], flag.ContinueOnError)
	flags.StringVar(&s.name, "name", "", "the snapshot's name")
	flags.StringVar(&s.endpoints, "endpoints", "127.0.0.1:2379", "etcd's addresses")
	flags.StringVar(&s.caCert, "cacert", "", "the file of the certificate authority")
	flags.StringVar(&s.cert, "cert", "", "the file of the client's certificate")
	flags.StringVar(&s.key, "key", "", "the file of its key")
	flags.BoolVar(&s.once, "once", false, "make one snapshot")
	flags.DurationVar(&s.creation, "creation", 12*time.Hour, "the time between two snapshots")
	flags.DurationVar(&s.retention, "retention", 72*time.Hour, "the time after which a snapshot is removed")
	flags.StringVar(&s.from, "local-endpoint", "", "refused: the stand-in carries no snapshots between hosts")
	flags.BoolVar(&s.s3, "s3-backup", false, "refused: the stand-in has no S3")
	for _, name := range []string{"s3-endpoint", "s3-bucketName", "s3-region", "s3-endpoint-ca", "s3-folder"} {
		flags.String(name, "", "see s3-backup")
	}
	if err := flags.Parse(args[2:]); err != nil {
		return err
	}
	if s.s3 || s.from != "" {
		return errors.New("the stand-in has no S3 and carries no snapshots between hosts")
	}
	switch args[1] {
	case "save":
		if s.once {
			return s.save(ctx)
		}
		return s.roll(ctx)
	case "delete":
		return s.delete()
	case "extractstatefile":
		return s.extract(func(member string) bool { return strings.HasSuffix(member, ".rkestate") }, extractedTo)
	case "download": // here, from the archive to the plain snapshot beside it
		return s.extract(func(member string) bool { return member == snapshotDir+"/"+s.name }, filepath.Join(s.dir, s.name))
	default:
		return fmt.Errorf("the stand-in has no subcommand %q", args[1])
	}
}

// roll makes a snapshot after each period until ctx ends, and removes old ones.
func (s snapshot) roll(ctx context.Context) error {
	tick := time.NewTicker(s.creation)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			one := s
			one.name = now.UTC().Format(time.RFC3339) + rollingMark
			if err := errors.Join(one.save(ctx), s.expire(now)); err != nil {
				fmt.Fprintln(os.Stderr, err) // the next one may succeed
			}
		}
	}
}

// expire removes the rolling snapshots whose names are too old.
func (s snapshot) expire(now time.Time) error {
	archives, err := filepath.Glob(filepath.Join(s.dir, "*"+rollingMark+".zip"))
	if err != nil {
		return err
	}
	var errs []error
	for _, archive := range archives {
		stamp := strings.TrimSuffix(filepath.Base(archive), rollingMark+".zip")
		if made, err := time.Parse(time.RFC3339, stamp); err == nil && now.Sub(made) > s.retention {
			errs = append(errs, os.Remove(archive))
		}
	}
	return errors.Join(errs...)
}

// save makes the archive <name>.zip of a snapshot and, where there is one, of the state file of that name. The names in
// the archive begin with a slash; readers match them exactly.
func (s snapshot) save(ctx context.Context) error {
	if s.name == "" {
		return errors.New("a snapshot needs a --name")
	}
	file := filepath.Join(s.dir, s.name)
	if err := s.takeSnapshot(ctx, s, file); err != nil {
		return err
	}
	defer os.Remove(file)
	out, err := os.OpenFile(file+".zip.new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	archive := zip.NewWriter(out)
	err = add(archive, snapshotDir+"/"+s.name, file)
	if err == nil {
		err = add(archive, stateDir+"/"+s.name+".rkestate", filepath.Join(s.stateDir, s.name+".rkestate"))
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(os.Stderr, "there is no state file for the snapshot %s; the archive is without one\n", s.name)
			err = nil
		}
	}
	if err := errors.Join(err, archive.Close(), out.Sync(), out.Close()); err != nil {
		return fmt.Errorf("pack the snapshot %s: %w", s.name, err)
	}
	return os.Rename(file+".zip.new", file+".zip")
}

func add(archive *zip.Writer, name, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	entry, err := archive.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
	if err != nil {
		return err
	}
	_, err = io.Copy(entry, file)
	return err
}

// etcdctl asks etcd for a snapshot.
func etcdctl(ctx context.Context, s snapshot, file string) error {
	command := exec.CommandContext(ctx, "etcdctl", "--endpoints", s.endpoints, "--cacert", s.caCert, "--cert", s.cert, "--key", s.key, "snapshot", "save", file)
	command.Env = append(os.Environ(), "ETCDCTL_API=3")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("ask etcd for the snapshot %s: %w: %s", s.name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// delete removes a snapshot, packed and not. A missing snapshot is not an error.
func (s snapshot) delete() error {
	if s.name == "" {
		return errors.New("a snapshot needs a --name")
	}
	var errs []error
	for _, file := range []string{s.name, s.name + ".zip"} {
		if err := os.Remove(filepath.Join(s.dir, file)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// extract writes the member of a snapshot's archive that is wanted to a file.
func (s snapshot) extract(wanted func(member string) bool, to string) error {
	path := filepath.Join(s.dir, strings.TrimSuffix(s.name, ".zip")+".zip")
	archive, err := zip.OpenReader(path)
	if err != nil {
		return fmt.Errorf("open the snapshot %s: %w", s.name, err)
	}
	defer archive.Close()
	for _, member := range archive.File {
		if !wanted(member.Name) {
			continue
		}
		in, err := member.Open()
		if err != nil {
			return err
		}
		defer in.Close()
		out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Close())
	}
	return fmt.Errorf("%s has no such member", path)
}
