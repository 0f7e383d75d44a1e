package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/cmd/drover/config"
)

// uninstall takes the server off this host. It can be run again after a crash.
func (a *App) uninstall(ctx context.Context, purge bool) error {
	if err := mayInstall(); err != nil {
		return err
	}
	if self, err := thisProgram(); err == nil && self == packaged {
		return errors.New("the server of this host is of a package: `apt remove drover` or `rpm -e drover` takes it off, and the data stay; `apt purge drover` removes them, too")
	}
	file, err := config.Read(config.Path, false)
	dir := dataDir
	if err == nil && file.Text("data-dir") != "" { // a file that cannot be read has named no other
		dir = file.Text("data-dir")
	}
	if _, err := os.Stat(unitFile); err == nil {
		if err := systemctl(ctx, "disable", "--now", unitName); err != nil {
			return err
		}
	}
	for _, path := range []string{unitFile, program, program + ".previous", program + ".new"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("uninstall the server: %w", err)
		}
	}
	forgetFirst(ctx)
	if !purge {
		fmt.Fprintf(a.Out, "the server is off this host; its data are in %s and its configuration is %s: an install goes on with them\n", dir, config.Path)
		return nil
	}
	return a.purge(ctx, dir)
}

// purge removes what the server kept, but for what no backup and no host can do without.
func (a *App) purge(ctx context.Context, dir string) error {
	aside := filepath.Join("/var/backups", "drover-removed-"+time.Now().UTC().Format("20060102T150405Z"))
	kept := false
	for _, name := range []string{"encryption.key", "tls"} {
		from := filepath.Join(dir, name)
		if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := os.MkdirAll(aside, 0o700); err != nil {
			return fmt.Errorf("keep the server's keys: %w", err)
		}
		// By a copy where /var/backups is on another disk.
		if err := command(ctx, "mv", "--", from, aside); err != nil {
			return fmt.Errorf("keep the server's keys: %w", err)
		}
		kept = true
	}
	for _, path := range []string{dir, filepath.Dir(config.Path)} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove what the server kept: %w", err)
		}
	}
	if _, err := user.Lookup(userName); err == nil {
		if err := command(ctx, "userdel", userName); err != nil {
			return fmt.Errorf("remove the server's user: %w", err)
		}
	}
	fmt.Fprintln(a.Out, "the server and all that it kept are off this host")
	if kept {
		fmt.Fprintf(a.Out, "its key file and its authority are in %s: backups need them\n", aside)
	}
	return nil
}
