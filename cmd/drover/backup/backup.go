// Package backup is the part of drover's command line that saves a server and brings it back:
// drover server backup, drover server backups and drover server restore.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/server/backup"
)

// App is what the commands need of the program.
type App struct {
	// Client finds the server.
	Client func() (*client.Client, error)
	// DataDir is that of --data-dir.
	DataDir func() string
	// Tabular says that people read the output; otherwise Print prints a value for programs.
	Tabular func() bool
	Print   func(value any) error
	// Usage is an error about the command line.
	Usage    func(format string, args ...any) error
	Out, Err io.Writer
}

// Commands are those below drover server.
func (a *App) Commands() []*cobra.Command {
	return []*cobra.Command{a.backupCommand(), a.backupsCommand(), a.restoreCommand()}
}

// written is what is printed of a backup.
type written struct {
	File     string          `json:"file"`
	Bytes    int64           `json:"bytes"`
	Manifest backup.Manifest `json:"manifest"`
}

func (a *App) backupCommand() *cobra.Command {
	var to, passphrase, keyFile string
	var recipients []string
	var withKeys bool
	cmd := &cobra.Command{
		Use: "backup --to FILE|DIR", Short: "Save the server in a file, while it serves", Args: cobra.NoArgs,
		Long: `Save the server in a file, while it serves: a consistent copy of its store, with a manifest and
the sums of all that is in it. The copy comes from the server; it is of no use without the server's
keys, which encrypt its secrets, and the authority that hosts have pinned. With --with-keys these
are read from the data directory on this host and put into the file, which has to be encrypted then.
Otherwise keep copies of encryption.key and tls/ of the data directory in another safe place.

The file appears whole or not at all, with mode 0600, and replaces nothing. In a directory it gets
the time as its name.`,
		Example: `  drover server backup --to /mnt/backups --with-keys --encrypt-to age1…
  drover server backup --to drover.tar`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return a.Usage("--to is missing: name the file to write, or a directory")
			}
			seal, err := backup.NewSealing(recipients, passphrase)
			if err != nil {
				return err
			}
			var keys *backup.Keys
			if withKeys {
				if !seal.Encrypts() {
					return a.Usage("a backup with keys has to be encrypted, as a reader of it has all secrets of the server: give --encrypt-to or --passphrase-file")
				}
				own := backup.KeysIn(a.DataDir(), keyFile)
				keys = &own
			}
			return a.backup(cmd.Context(), to, seal, keys)
		},
	}
	f := cmd.Flags()
	f.StringVar(&to, "to", "", "file to write, or a directory that exists")
	f.BoolVar(&withKeys, "with-keys", false, "put the keys of the data directory on this host into it")
	f.StringVar(&keyFile, "encryption-key-file", "", "the server's key file, where that is not in its data directory")
	sealFlags(cmd, &recipients, &passphrase)
	return cmd
}

func sealFlags(cmd *cobra.Command, recipients *[]string, passphrase *string) {
	cmd.Flags().StringArrayVar(recipients, "encrypt-to", nil, "encrypt it for this public key of age or SSH (repeat)")
	cmd.Flags().StringVar(passphrase, "passphrase-file", "", "encrypt it with the first line of this file, which others may not read")
}

func (a *App) backup(ctx context.Context, to string, seal backup.Sealing, keys *backup.Keys) error {
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, backup.Name(time.Now(), seal))
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	var m backup.Manifest
	size, err := backup.Save(to, seal, func(w io.Writer) error {
		from, err := c.Stream(ctx, "/v1-drover/backup")
		if err != nil {
			return fmt.Errorf("ask %s for a backup: %w", c.Server(), err)
		}
		defer from.Close()
		m, err = backup.Copy(w, from, keys)
		return err
	})
	if err != nil {
		return err
	}
	if !a.Tabular() {
		return a.Print(written{to, size, m})
	}
	fmt.Fprintf(a.Out, "%s: %s of drover %s, revision %d\n", to, bytes(size), m.Version, m.Revision)
	if m.Keys {
		fmt.Fprintln(a.Out, "its keys are in it: a person who can open it has all secrets of the server")
		return nil
	}
	fmt.Fprintf(a.Out, "without keys: it can be restored only with a copy of encryption.key (key %s)", m.DataKey)
	if m.Authority != "" {
		fmt.Fprint(a.Out, ", tls/ca.crt and tls/ca.key")
	}
	fmt.Fprintln(a.Out, " of the server's data directory")
	return nil
}

func (a *App) backupsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "backups", Short: "Say how the backups stand that the server makes by itself", Args: cobra.NoArgs,
		Long: `Say how the backups stand that the server makes by itself (drover server --backup-dir): when the last
one was made, why the last attempt failed, when the next one is due, and which files there are. The
exit code is 0 when they are well, and 1 when none are made, the last attempt failed, or the newest
file is older than two times --backup-every.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Client()
			if err != nil {
				return err
			}
			var s backup.Status
			if err := c.Get(cmd.Context(), "/v1-drover/backups", &s); err != nil {
				return fmt.Errorf("ask how the backups stand: %w", err)
			}
			if !a.Tabular() {
				err = a.Print(s)
			} else {
				fmt.Fprint(a.Out, Sentences(s, time.Now()))
			}
			if err == nil && !s.Well {
				err = ErrUnwell
			}
			return err
		},
	}
}

// ErrUnwell is that scheduled backups are not well, which was printed.
var ErrUnwell = errors.New("the backups are not well")

// Sentences say how scheduled backups stand, the worst first, each with what to do.
func Sentences(s backup.Status, now time.Time) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if s.Dir == "" {
		line("the server makes no backups by itself")
		line("  what to do: start it with --backup-dir DIR, a directory on another disk, and --backup-encrypt-to KEY --backup-with-keys")
		return b.String()
	}
	if s.Failure != "" {
		line("the last backup failed %s ago: %s", since(now, s.FailedAt), s.Failure)
		if s.Offsite != nil && len(s.Files) > 0 && !slices.ContainsFunc(s.Offsite.Files, func(f apitypes.BackupFile) bool { return f.Name == s.Files[0].Name }) {
			line("  what to do: look whether the %s answers the server's host, takes its keys and has room", s.Offsite.Place)
		} else {
			line("  what to do: look at the directory %s on the server's host: whether it is there, can be written and has room", s.Dir)
		}
	}
	switch {
	case len(s.Files) == 0:
		line("there is no backup in %s", s.Dir)
	case s.Failure == "" && !s.Well:
		line("the newest backup in %s is %s old, and one is to be made every %s", s.Dir, since(now, s.Files[0].Made), s.Every)
		line("  what to do: look at the server's log")
	default:
		line("the newest backup in %s is %s old: %s, %s", s.Dir, since(now, s.Files[0].Made), s.Files[0].Name, bytes(s.Files[0].Size))
	}
	if !s.Next.IsZero() {
		line("the next one is due in %s; one every %s, %d stay", max(s.Next.Sub(now), 0).Round(time.Second), s.Every, s.Keep)
	}
	if o := s.Offsite; o != nil && !o.LookedAt.IsZero() {
		line("the %s has %d of them", o.Place, len(o.Files))
	}
	switch {
	case !s.Keys:
		line("they have no keys: keep copies of encryption.key, tls/ca.crt and tls/ca.key of the data directory in another safe place")
	case s.Encrypted:
		line("they have the keys, and are encrypted")
	}
	for i, f := range s.Files {
		if i > 0 {
			line("  %s  %s", f.Name, bytes(f.Size))
		}
	}
	return b.String()
}

func since(now, at time.Time) string { return max(now.Sub(at), 0).Round(time.Second).String() }

func bytes(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

func (a *App) restoreCommand() *cobra.Command {
	var from, s3, identity, passphrase, keysDir, keyFile string
	var replace bool
	cmd := &cobra.Command{
		Use: "restore --from FILE", Short: "Make a data directory of a backup, on a host where no server runs", Args: cobra.NoArgs,
		Long: `Make a data directory of a backup, on a host where no server runs; then start the server with it. The
directory is made beside its place and opened once before it gets its name: a backup that is cut off,
was changed, is of a newer drover or lacks its keys is refused, and everything is as it was. A
directory that holds something is refused, or with --replace moved aside, where it stays.

Agents find the server again by themselves where its address is the same: they go on with their
plans, and report again, without running it again, what they did since the backup was made. Hosts
that joined since then have to join again. docs/how-to/back-up-the-server.md has the whole way.

A server on an external etcd is restored there: etcdutl snapshot restore with --bump-revision
1000000000 --mark-compacted, as docs/how-to/back-up-the-server.md says.`,
		Example: `  drover server restore --from /mnt/backups/drover-20261122T031500Z.tar.age --identity key.txt
  drover server restore --s3 bucket.yaml --from newest --identity key.txt
  drover server restore --from drover.tar --keys /root/drover-keys --data-dir /srv/drover`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" {
				return a.Usage("--from is missing: name the file of the backup")
			}
			r := backup.Restore{
				From: from, DataDir: a.DataDir(), Opening: backup.Opening{IdentityFile: identity, PassphraseFile: passphrase}, Replace: replace,
				Now: time.Now, Logger: slog.New(slog.NewTextHandler(a.Err, nil)),
			}
			if s3 != "" {
				var err error
				if r.Offsite, err = backup.ReadOffsite(s3); err != nil {
					return err
				}
			}
			if keysDir != "" || keyFile != "" {
				r.Keys = backup.KeysIn(keysDir, keyFile)
			}
			return a.restore(cmd.Context(), r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "file of the backup; with --s3 its name in the bucket, or newest")
	f.StringVar(&s3, "s3", "", "file of the bucket that has the backup, as of --backup-s3 of drover server")
	f.StringVar(&identity, "identity", "", "file with the private key of age or SSH that it is encrypted for")
	f.StringVar(&passphrase, "passphrase-file", "", "file with the passphrase that it is encrypted with")
	f.StringVar(&keysDir, "keys", "", "for a backup without keys: directory with encryption.key, tls/ca.crt and tls/ca.key, such as a copy of the old data directory")
	f.StringVar(&keyFile, "encryption-key-file", "", "the key file, where that is not in --keys")
	f.BoolVar(&replace, "replace", false, "move a data directory that is there aside")
	return cmd
}

func (a *App) restore(ctx context.Context, r backup.Restore) error {
	done, err := r.Run(ctx)
	if err != nil {
		return err
	}
	if !a.Tabular() {
		return a.Print(done)
	}
	m := done.Manifest
	fmt.Fprintf(a.Out, "%s is the server as of %s: %d clusters, %d machines, made by drover %s at %s\n",
		done.DataDir, m.Made.Format(time.RFC3339), done.Clusters, done.Machines, m.Version, m.ServerURL)
	if done.Aside != "" {
		fmt.Fprintf(a.Out, "what was there is in %s\n", done.Aside)
	}
	fmt.Fprintf(a.Out, "start it as before, at the same address: hosts look for it there\n")
	return nil
}
