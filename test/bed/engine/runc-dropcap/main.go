// Command runc-dropcap stands in for runc on machines that withhold CAP_SYS_RESOURCE: it takes that capability, and
// what needs it, out of the specification a command reads, and then becomes the real runc. Installed under the name
// runc before the real one on the path it serves engines that call "runc"; where nothing is withheld it changes nothing.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/drover-project/drover/test/bed/engine/dropcap"
)

func main() {
	fmt.Fprintln(os.Stderr, "runc-dropcap:", run())
	os.Exit(1)
}

// run returns only when runc could not be started.
func run() error {
	withheld, err := dropcap.Withheld()
	if err != nil {
		return err
	}
	if withheld {
		if err := rewrite(); err != nil {
			return err
		}
	}
	runc, err := realRunc(os.Getenv("PATH"))
	if err != nil {
		return err
	}
	return fmt.Errorf("start %s: %w", runc, syscall.Exec(runc, append([]string{runc}, os.Args[1:]...), os.Environ()))
}

// rewrite changes the specification that the command reads, if it reads one.
func rewrite() error {
	// A container whose bundle was removed is killed and deleted from a directory that is gone. Those commands read no
	// specification, and one that does names its bundle or fails in runc itself.
	workDir, _ := os.Getwd()
	path, kind := dropcap.Target(os.Args[1:], workDir)
	if kind == dropcap.None {
		return nil
	}
	limits, err := dropcap.CurrentLimits()
	if err != nil {
		return err
	}
	return dropcap.RewriteFile(path, kind, limits)
}

// realRunc is the first runc on the path that is not this program.
func realRunc(path string) (string, error) {
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return "", err
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, "runc")
		if info, err := os.Stat(file); err == nil && info.Mode()&0o111 != 0 && !os.SameFile(info, self) {
			return file, nil
		}
	}
	return "", errors.New("no real runc on PATH")
}
