// Manual writes what packages have beside the program: its manual page and the completions of three shells, made from the commands
// themselves.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cpuguy83/go-md2man/v2/md2man"

	"github.com/drover-project/drover/cmd/drover/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: manual DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "write the manual:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]func(*bytes.Buffer) error{
		"drover.1":    func(b *bytes.Buffer) error { b.Write(page()); return nil },
		"drover.bash": func(b *bytes.Buffer) error { return cli.Completion(b, "bash") },
		"drover.zsh":  func(b *bytes.Buffer) error { return cli.Completion(b, "zsh") },
		"drover.fish": func(b *bytes.Buffer) error { return cli.Completion(b, "fish") },
	} {
		var b bytes.Buffer
		if err := text(&b); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil { // #nosec G306 -- pages that all users of a host read
			return err
		}
	}
	return nil
}

// page is the manual page, with the name and the purpose by which `man -k` finds it.
func page() []byte {
	var b bytes.Buffer
	b.WriteString("% DROVER(1)\n\n# NAME\n\ndrover - provision and look after Kubernetes clusters on hosts that already exist\n\n")
	cli.Document(&b)
	return md2man.Render(b.Bytes())
}
