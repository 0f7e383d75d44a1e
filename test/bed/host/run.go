package host

// Running commands on a host, and moving files to and from it.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// tailBytes is how much of a command's or a console's output an error carries.
	tailBytes = 2000
	// missingFile is the exit code with which our own scripts say that a file does not exist.
	missingFile = 66
)

// ExitError is a command that failed on a host.
type ExitError struct {
	Host string
	Args []string
	// Code is the command's exit code: 126 or 127 when the host has no such command, -1 when it was cut short.
	Code int
	// Stderr is the end of what the command wrote to standard error.
	Stderr string

	err error
}

func (e *ExitError) Error() string {
	what := strings.Join(e.Args, " ")
	const shown = 200
	if len(what) > shown {
		what = what[:shown] + "…"
	}
	return fmt.Sprintf("run %q on host %s: %v: %s", what, e.Host, e.err, e.Stderr)
}

// Unwrap returns what ended the command.
func (e *ExitError) Unwrap() error { return e.err }

// Run runs a command on the host as root and returns its standard output, also when it fails; then the error is an
// *ExitError. A nil stdin is empty. When ctx ends Run returns, but the command on the host goes on.
func (h *Host) Run(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	docker := []string{"exec"}
	if stdin != nil {
		docker = append(docker, "--interactive")
	}
	for _, variable := range h.env {
		docker = append(docker, "--env", variable)
	}
	docker = append(append(docker, h.container), args...)
	command := h.engine.Command(ctx, docker...)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = stdin, &stdout, &stderr
	err := command.Run()
	if err == nil {
		return stdout.String(), nil
	}
	failure := &ExitError{Host: h.name, Args: args, Code: -1, Stderr: tail(strings.TrimSpace(stderr.String())), err: err}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		failure.Code = exit.ExitCode()
	}
	if ctx.Err() != nil {
		failure.err = context.Cause(ctx)
	}
	return stdout.String(), failure
}

// Sh runs a shell script on the host as root, ended by its first failing command, and returns its standard output.
func (h *Host) Sh(ctx context.Context, script string) (string, error) {
	return h.Run(ctx, nil, "sh", "-euc", script)
}

// Copy copies a file of this machine to the path dst of the host, or what is in a directory into the directory dst.
// Modes are kept, the owner becomes root, and directories on the way are made. A file appears whole or not at all.
func (h *Host) Copy(ctx context.Context, src, dst string) error {
	info, err := os.Stat(src)
	if err != nil {
		return fmt.Errorf("copy to host %s: %w", h.name, err)
	}
	if info.IsDir() {
		return h.copyDir(ctx, src, dst)
	}
	file, err := os.Open(src)
	if err != nil {
		return fmt.Errorf("copy to host %s: %w", h.name, err)
	}
	defer file.Close()
	return h.put(ctx, file, dst, info.Mode())
}

// WriteFile writes a file on the host as Copy does.
func (h *Host) WriteFile(ctx context.Context, path string, data []byte, mode fs.FileMode) error {
	return h.put(ctx, bytes.NewReader(data), path, mode)
}

func (h *Host) put(ctx context.Context, data io.Reader, path string, mode fs.FileMode) error {
	const script = `mkdir -p "$(dirname "$1")" && cat >"$1.part" && chmod "$2" "$1.part" && mv -f "$1.part" "$1"`
	if _, err := h.Run(ctx, data, "sh", "-c", script, "put", path, fmt.Sprintf("%04o", mode.Perm())); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func (h *Host) copyDir(ctx context.Context, src, dst string) error {
	pack := exec.CommandContext(ctx, "tar", "--create", "--owner=0", "--group=0", "--directory", src, ".")
	var stderr bytes.Buffer
	pack.Stderr = &stderr
	archive, err := pack.StdoutPipe()
	if err != nil {
		return fmt.Errorf("pack %s: %w", src, err)
	}
	if err := pack.Start(); err != nil {
		return fmt.Errorf("pack %s: %w", src, err)
	}
	_, err = h.Run(ctx, archive, "sh", "-c", `mkdir -p "$1" && exec tar --extract --directory "$1"`, "unpack", dst)
	_, _ = io.Copy(io.Discard, archive) // lets tar end when the host took not all of it
	if packErr := pack.Wait(); err == nil && packErr != nil {
		err = fmt.Errorf("%w: %s", packErr, strings.TrimSpace(stderr.String()))
	}
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", src, dst, err)
	}
	return nil
}

// ReadFile returns the contents of a file on the host. If there is none the error is fs.ErrNotExist.
func (h *Host) ReadFile(ctx context.Context, path string) ([]byte, error) {
	script := fmt.Sprintf(`[ -e "$1" ] || exit %d; exec cat "$1"`, missingFile)
	data, err := h.Run(ctx, nil, "sh", "-c", script, "read", path)
	if exit, ok := errors.AsType[*ExitError](err); ok && exit.Code == missingFile {
		return nil, &fs.PathError{Op: "read on host " + h.name, Path: path, Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	return []byte(data), nil
}

// Journal returns the journal of a unit over all boots, oldest first, or the whole journal when unit is empty.
func (h *Host) Journal(ctx context.Context, unit string) (string, error) {
	args := []string{"journalctl", "--no-pager", "--output", "short-iso-precise"}
	if unit != "" {
		args = append(args, "--unit", unit)
	}
	return h.Run(ctx, nil, args...)
}

// Collect writes what one wants to see of a host on which a test failed into the directory dir: its journal, console,
// units and processes. What cannot be had is reported in its file.
func (h *Host) Collect(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("collect from host %s: %w", h.name, err)
	}
	sources := map[string][]string{
		"journal.txt":   {"journalctl", "--no-pager", "--output", "short-iso-precise"},
		"units.txt":     {"systemctl", "--no-pager", "list-units", "--all"},
		"processes.txt": {"ps", "-ef", "--forest"},
		"network.txt":   {"sh", "-c", "ip address; ip route; ss -tlnp"},
	}
	errs := []error{os.WriteFile(filepath.Join(dir, "console.txt"), []byte(h.Console(ctx)), 0o644)}
	for name, args := range sources {
		text, err := h.Run(ctx, nil, args...)
		if err != nil {
			text += "\n" + err.Error() + "\n"
		}
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return errors.Join(errs...)
}

func tail(text string) string {
	return text[max(0, len(text)-tailBytes):]
}
