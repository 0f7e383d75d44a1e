package main

// Attacks of strangers are done by a process of their own.

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// fromElsewhere does the attack of a name in a process of the lowest priority.
func fromElsewhere(name string, lasts time.Duration) func(context.Context, *target) string {
	return func(ctx context.Context, t *target) string {
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, "nice", "-n", "19", filepath.Join(t.options.dir, "abuse"), "-from", t.address, "-dir", t.options.dir, "-only", name, "-each", lasts.String())
		cmd.Stdout, cmd.Stderr = &out, &out
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = 20 * time.Second
		if err := cmd.Run(); err != nil && ctx.Err() == nil {
			return fmt.Sprintf("!the attack could not be done: %v: %.300s", err, out.String())
		}
		return strings.TrimSpace(out.String())
	}
}

// one does one attack on a server that another process has started.
func one(ctx context.Context, o options, address string, attacks []attack) (string, error) {
	t := &target{options: o, address: address, url: "https://" + address}
	if err := t.know(); err != nil {
		return "", err
	}
	if err := t.readToken(ctx); err != nil {
		return "", err
	}
	for _, a := range attacks {
		if a.name == o.only {
			ctx, cancel := context.WithTimeout(ctx, a.lasts)
			defer cancel()
			return a.do(ctx, t), nil
		}
	}
	return "", fmt.Errorf("there is no attack %q", o.only)
}
