package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/cmd/drover/config"
	"github.com/drover-project/drover/packaging/systemd"
	"github.com/drover-project/drover/plans/durable"
)

const (
	program  = "/usr/local/bin/drover"
	unitFile = "/etc/systemd/system/" + unitName
	// packaged is the program of the packages for Debian and Red Hat, which bring the unit, too.
	packaged = "/usr/bin/drover"
	// The first start gets its password from a file of the run, which is gone with it, also after a crash and a restart of the host.
	firstDir  = "/run/drover-first-start"
	firstUnit = "/run/systemd/system/" + unitName + ".d/50-first-start.conf"
)

// installOptions are what a person says of a new server.
type installOptions struct {
	serverURL, listen string
}

// install makes this program the server of this host, or puts it in the place of an older release.
func (a *App) install(ctx context.Context, o installOptions) error {
	if err := mayInstall(); err != nil {
		return err
	}
	text, err := o.configure()
	if err != nil {
		return err
	}
	undo, err := place()
	if err != nil {
		return err
	}
	if err := a.start(ctx, text); err != nil {
		if back := undo(ctx); back != nil {
			return fmt.Errorf("%w; and the release of before could not be put back: %w", err, back)
		}
		return err
	}
	return nil
}

// configure is the text of the configuration file: a new one, or what is there with the keys that it lacks; "" where nothing is to be written.
func (o installOptions) configure() (string, error) {
	is, err := config.Read(config.Path, false)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, one := range [][2]string{{"server-url", o.serverURL}, {"listen", o.listen}} {
		name, value := one[0], one[1]
		if value == "" {
			continue
		}
		switch has := is.Text(name); {
		case has == "":
			lines = append(lines, name+": "+strconv.Quote(value))
		case has != value:
			return "", fmt.Errorf("%s is there already and has another %s: change it there, and `systemctl restart drover`", config.Path, name)
		}
	}
	text := systemd.Config
	if is.Path != "" {
		if len(lines) == 0 {
			return "", nil
		}
		there, err := os.ReadFile(is.Path)
		if err != nil {
			return "", fmt.Errorf("read the configuration: %w", err)
		}
		text = string(there)
	}
	return strings.Join(append(lines, "", text), "\n"), nil
}

// thisProgram is the file of this program.
func thisProgram() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return self, nil
}

// place puts the program and the unit into their places, where no package has done so; undo puts back what was there.
func place() (undo func(context.Context) error, err error) {
	self, err := thisProgram()
	if err != nil {
		return nil, err
	}
	unit, err := os.ReadFile(unitFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the unit that is there: %w", err)
	}
	if self == packaged {
		if unit != nil {
			return nil, fmt.Errorf("this program is of a package, and %s is of an installation without one, in whose place it would run: take that off first (%s server uninstall; the data stay), and run this again", unitFile, program)
		}
		return func(context.Context) error { return nil }, nil
	}
	if _, err := os.Stat(packaged); err == nil {
		return nil, errors.New("the package drover is installed here, whose server this one would replace without its knowledge: upgrade the package, or remove it first (the data stay)")
	}
	if self != program {
		if err := copyProgram(self); err != nil {
			return nil, err
		}
	}
	if err := durable.WriteFile(unitFile, []byte(systemd.Unit), 0o644); err != nil {
		return nil, fmt.Errorf("write the unit: %w", err)
	}
	return func(ctx context.Context) error {
		if unit == nil {
			return nil // nothing was there; what is now can be looked at, and uninstalled
		}
		if self != program {
			if err := os.Rename(program+".previous", program); err != nil {
				return err
			}
		}
		if err := durable.WriteFile(unitFile, unit, 0o644); err != nil {
			return err
		}
		return errors.Join(systemctl(ctx, "daemon-reload"), systemctl(ctx, "restart", unitName))
	}, nil
}

// copyProgram puts a program into its place by a rename, and keeps the one of before beside it.
func copyProgram(from string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(program+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755) // #nosec G302 -- a program
	if err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return errors.Join(fmt.Errorf("copy this program to %s.new, see whether the disk is full: %w", program, err), os.Remove(program+".new"))
	}
	if err := os.Remove(program + ".previous"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the release before the last: %w", err)
	}
	if err := os.Link(program, program+".previous"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep the release of before: %w", err)
	}
	if err := os.Rename(program+".new", program); err != nil {
		return fmt.Errorf("copy this program: %w", err)
	}
	return nil
}

// start makes the user and the configuration, starts the unit, and says how the server is reached.
func (a *App) start(ctx context.Context, text string) error {
	owner, err := ensureUser(ctx)
	if err != nil {
		return err
	}
	if text != "" {
		if err := os.MkdirAll(filepath.Dir(config.Path), 0o755); err != nil {
			return fmt.Errorf("make the directory of the configuration: %w", err)
		}
		if err := durable.WriteFile(config.Path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("write the configuration: %w", err)
		}
	}
	dir, err := ownData(owner)
	if err != nil {
		return err
	}
	password := ""
	// The first administrator comes with this file. A store without it is of a first start that failed.
	if _, err := os.Stat(filepath.Join(dir, "admin-token")); errors.Is(err, fs.ErrNotExist) {
		if password, err = firstPassword(owner); err != nil {
			return err
		}
		defer forgetFirst(context.WithoutCancel(ctx))
	}
	if err := systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	if err := systemctl(ctx, "enable", unitName); err != nil {
		return err
	}
	if err := systemctl(ctx, "restart", unitName); err != nil {
		return fmt.Errorf("the server does not start: %s", lastLines(ctx, err))
	}
	return a.tell(ctx, dir, password)
}

// tell prints how the server is reached, and the first login where it has just been made.
func (a *App) tell(ctx context.Context, dir, password string) error {
	url, is, err := a.Ask(ctx, dir, password)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "the server is at %s (drover %s; systemctl status drover; %s; data in %s)\n", url, drover.Version, config.Path, dir)
	if is {
		fmt.Fprintf(a.Out, "log in as admin with the password %s: it has to be changed then\n", password)
	}
	fmt.Fprintf(a.Out, "as root on this host no login is needed: try `drover clusters ls`, or open %s/dashboard/\n", url)
	return nil
}

// ensureUser is the user that the server runs as, which is made when there is none.
func ensureUser(ctx context.Context) (*user.User, error) {
	if u, err := user.Lookup(userName); err == nil {
		return u, nil
	}
	if err := command(ctx, "useradd", "--system", "--user-group", "--home-dir", dataDir, "--no-create-home", "--shell", "/usr/sbin/nologin", userName); err != nil {
		return nil, fmt.Errorf("make the user %s: %w", userName, err)
	}
	u, err := user.Lookup(userName)
	if err != nil {
		return nil, fmt.Errorf("find the user %s that was made: %w", userName, err)
	}
	return u, nil
}

// ownData gives the data directory to the server's user: one that was started by hand as root has made it before. It returns where it is.
func ownData(owner *user.User) (string, error) {
	file, err := config.Read(config.Path, false)
	if err != nil {
		return "", err
	}
	dir := file.Text("data-dir")
	if dir == "" {
		dir = dataDir
	}
	if err := idle(dir); err != nil {
		return "", err
	}
	uid, gid, err := ids(owner)
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil // systemd makes it
	}
	if err != nil {
		return "", fmt.Errorf("look at the data directory: %w", err)
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(path, uid, gid)
	})
	if err != nil {
		return "", fmt.Errorf("give the data directory to user %s: %w", userName, err)
	}
	return dir, nil
}

// idle says that a server which is not the unit's uses a data directory; nil when none does.
func idle(dir string) error {
	if exec.Command("systemctl", "is-active", "--quiet", unitName).Run() == nil {
		return nil
	}
	lock, err := os.Open(filepath.Join(dir, "lock"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the data directory: %w", err)
	}
	defer lock.Close()
	if durable.TryLock(lock) != nil {
		return fmt.Errorf("a server that was started by hand uses %s: stop it, and run this again", dir)
	}
	return nil
}

func ids(u *user.User) (uid, gid int, err error) {
	if uid, err = strconv.Atoi(u.Uid); err == nil {
		gid, err = strconv.Atoi(u.Gid)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the ids of user %s: %w", u.Username, err)
	}
	return uid, gid, nil
}

// firstPassword makes the first administrator's password, and a unit by which the first start alone reads it: it is in no journal.
func firstPassword(owner *user.User) (string, error) {
	uid, gid, err := ids(owner)
	if err != nil {
		return "", err
	}
	password, file := strings.ToLower(rand.Text()), filepath.Join(firstDir, "password")
	err = os.RemoveAll(firstDir)
	if err == nil {
		err = os.Mkdir(firstDir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(file, []byte(password+"\n"), 0o600)
	}
	if err = errors.Join(err, os.Chown(firstDir, uid, gid), os.Chown(file, uid, gid)); err != nil {
		return "", fmt.Errorf("write down the first password: %w", err)
	}
	self, err := thisProgram()
	if err != nil {
		return "", err
	}
	if self != packaged {
		self = program
	}
	text := "[Service]\nExecStart=\nExecStart=" + self + " server --config " + config.Path + " --bootstrap-password-file " + file + "\n"
	if err := os.MkdirAll(filepath.Dir(firstUnit), 0o755); err != nil {
		return "", fmt.Errorf("write the unit of the first start: %w", err)
	}
	if err := os.WriteFile(firstUnit, []byte(text), 0o644); err != nil { // #nosec G306 -- a unit, which systemctl of any user shows
		return "", fmt.Errorf("write the unit of the first start: %w", err)
	}
	return password, nil
}

// forgetFirst removes what was for the first start. What stays of it is gone with the next start of the host.
func forgetFirst(ctx context.Context) {
	_ = os.RemoveAll(firstDir)
	_ = os.RemoveAll(filepath.Dir(firstUnit))
	_ = systemctl(ctx, "daemon-reload")
}

// lastLines is why a unit did not start, by what the server said last.
func lastLines(ctx context.Context, err error) string {
	out, read := exec.CommandContext(ctx, "journalctl", "--no-pager", "-q", "-o", "cat", "-n", "20", "-u", unitName, "_SYSTEMD_UNIT="+unitName).Output()
	var errs []string
	for line := range strings.Lines(string(out)) {
		if after, ok := strings.CutPrefix(line, "error: "); ok {
			errs = append(errs, strings.TrimSpace(after))
		}
	}
	if read != nil || len(errs) == 0 {
		return err.Error() + "; journalctl -u drover has more"
	}
	return errs[len(errs)-1]
}
