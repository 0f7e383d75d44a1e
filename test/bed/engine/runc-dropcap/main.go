// Command runc-dropcap stands in for runc on machines that withhold CAP_SYS_RESOURCE: it takes that capability, and
// what needs it, out of the specification a command reads, and then becomes the real runc.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/drover-project/drover/test/bed/engine/dropcap"
)

func main() {
	fmt.Fprintln(os.Stderr, "runc-dropcap:", run())
	os.Exit(1)
}

// run returns only when runc could not be started.
func run() error {
	workDir, err := os.Getwd()
	if err != nil {
		return err
	}
	if path, kind := dropcap.Target(os.Args[1:], workDir); kind != dropcap.None {
		limits, err := dropcap.CurrentLimits()
		if err != nil {
			return err
		}
		if err := dropcap.RewriteFile(path, kind, limits); err != nil {
			return err
		}
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return fmt.Errorf("find the real runc: %w", err)
	}
	return fmt.Errorf("start %s: %w", runc, syscall.Exec(runc, append([]string{runc}, os.Args[1:]...), os.Environ()))
}
