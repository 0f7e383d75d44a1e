package host

// The image of a test host: built once a recipe, cached as a tarball, imported into each engine that lacks it.

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/drover-project/drover/test/bed/engine"
	"github.com/drover-project/drover/test/bed/lockfile"
)

// recipe builds the root file system; see its first lines.
//
//go:embed build-rootfs.sh
var recipe []byte

// baseImage is what the root file system is made from on machines that have a registry but no debootstrap.
const baseImage = "debian:12"

// packagesVariable says to the recipe what to install beyond the usual.
const packagesVariable = "DROVER_HOST_PACKAGES"

// Image returns the name of the image of a test host with the given Debian packages on it, after building and importing
// it if the engine lacks it. The first build of a machine takes a minute or two, later runs of it a second.
func Image(ctx context.Context, e *engine.Engine, packages ...string) (string, error) {
	return ImageOf(ctx, e, Bookworm, packages...)
}

// The releases of Debian that hosts may have, by the names that its archive has for them.
const (
	Bookworm = "bookworm" // Debian 12, which hosts have unless a test wants another
	Trixie   = "trixie"   // Debian 13
)

// ImageOf is Image of another release of Debian.
func ImageOf(ctx context.Context, e *engine.Engine, suite string, packages ...string) (string, error) {
	name := "drover-test/host:" + hash(suite, packages)
	if has(ctx, e, name) {
		return name, nil
	}
	tarball, err := rootFS(ctx, e, suite, packages)
	if err != nil {
		return "", err
	}
	lock, err := lockfile.Take(ctx, filepath.Join(e.CacheDir(), "host-image.lock"), lockfile.Exclusive)
	if err != nil {
		return "", err
	}
	defer lock.Unlock()
	if has(ctx, e, name) { // another process built it meanwhile
		return name, nil
	}
	e.Log.Info("importing the image of a test host", "image", name)
	if _, err := e.Docker(ctx, "import", "--change", "ENV container=docker", "--change", `CMD ["/sbin/test-host-boot"]`, tarball, name); err != nil {
		return "", err
	}
	return name, nil
}

// recipeOf is the recipe for a release of Debian.
func recipeOf(suite string) []byte {
	return bytes.Replace(recipe, []byte("\nsuite="+Bookworm+"\n"), []byte("\nsuite="+suite+"\n"), 1)
}

// hash names the recipe and the packages.
func hash(suite string, packages []string) string {
	sum := sha256.Sum256(append(recipeOf(suite), strings.Join(packages, " ")...))
	return hex.EncodeToString(sum[:])[:12]
}

// RootFS returns the archive of the root file system of a test host with the given Debian packages on it, after building it
// if the cache lacks it.
func RootFS(ctx context.Context, e *engine.Engine, packages ...string) (string, error) {
	return rootFS(ctx, e, Bookworm, packages)
}

func rootFS(ctx context.Context, e *engine.Engine, suite string, packages []string) (string, error) {
	tarball := filepath.Join(e.CacheDir(), fmt.Sprintf("host-%s-%s.tar", runtime.GOARCH, hash(suite, packages)))
	lock, err := lockfile.Take(ctx, filepath.Join(e.CacheDir(), "host-image.lock"), lockfile.Exclusive)
	if err != nil {
		return "", err
	}
	defer lock.Unlock()
	if _, err := os.Stat(tarball); errors.Is(err, fs.ErrNotExist) {
		e.Log.Info("building the image of a test host; this takes a minute or two the first time", "file", tarball)
		if err := build(ctx, e, tarball, suite, packages); err != nil {
			return "", fmt.Errorf("build the root file system of a test host: %w", err)
		}
	} else if err != nil {
		return "", fmt.Errorf("look for the root file system of a test host: %w", err)
	}
	return tarball, nil
}

func has(ctx context.Context, e *engine.Engine, image string) bool {
	_, err := e.Docker(ctx, "image", "inspect", "--format", "{{.Id}}", image)
	return err == nil
}

// build writes the root file system to tarball: with debootstrap where the machine has it, else from Debian's image.
func build(ctx context.Context, e *engine.Engine, tarball, suite string, packages []string) error {
	dir, err := os.MkdirTemp("", "drover-host-image-*")
	if err != nil {
		return fmt.Errorf("make a directory for the recipe: %w", err)
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "build-rootfs.sh")
	if err := os.WriteFile(script, recipeOf(suite), 0o755); err != nil {
		return fmt.Errorf("write the recipe: %w", err)
	}
	extra := packagesVariable + "=" + strings.Join(packages, " ")
	err = runRecipe(ctx, script, tarball, extra)
	if err == nil || ctx.Err() != nil || suite != Bookworm {
		return err
	}
	e.Log.Info("debootstrap is of no use here; trying a registry", "image", baseImage, "because", err)
	if imageErr := buildFromImage(ctx, e, script, tarball, extra); imageErr != nil {
		return fmt.Errorf("with debootstrap: %w; from %s: %w", err, baseImage, imageErr)
	}
	return nil
}

func runRecipe(ctx context.Context, script, tarball, extra string) error {
	if _, err := exec.LookPath("debootstrap"); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("debootstrap needs root")
	}
	command := exec.CommandContext(ctx, "sh", script, "tarball", tarball)
	command.Env = append(os.Environ(), extra)
	// The recipe removes its work when it is asked to end, not when it is killed; its children must end first.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = time.Minute
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

// buildFromImage installs and customises in a container of Debian's image, and exports the container.
func buildFromImage(ctx context.Context, e *engine.Engine, script, tarball, extra string) error {
	container := "drover-" + e.RunID() + "-image"
	if _, err := e.Docker(ctx, "create", "--name", container, "--label", e.RunLabel(), "--network", e.Network(),
		"--env", extra, baseImage, "sh", "/build-rootfs.sh", "upgrade"); err != nil {
		return err
	}
	steps := [][]string{
		{"cp", script, container + ":/build-rootfs.sh"},
		{"start", "--attach", container},
		{"export", "--output", tarball + ".part", container},
		{"rm", "--volumes", container},
	}
	for _, step := range steps {
		if _, err := e.Docker(ctx, step...); err != nil {
			return err
		}
	}
	if err := os.Rename(tarball+".part", tarball); err != nil {
		return fmt.Errorf("keep the exported root file system: %w", err)
	}
	return nil
}
