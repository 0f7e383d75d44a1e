package engine

// The docker command line, which is the only way this package speaks to an engine.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// stderrTail is how much of a failed command's error output an error carries, in bytes.
const stderrTail = 2000

// CommandError is a docker command that failed.
type CommandError struct {
	// Args are the arguments after `docker`, shortened in the error's text.
	Args []string
	// Code is the exit code; -1 when the command was killed or never ran.
	Code int
	// Stderr is the end of the error output.
	Stderr string

	err error
}

func (e *CommandError) Error() string {
	args := e.Args
	const shown = 4
	dots := ""
	if len(args) > shown {
		args, dots = args[:shown], " …"
	}
	return fmt.Sprintf("docker %s%s: %v: %s", strings.Join(args, " "), dots, e.err, e.Stderr)
}

// Unwrap returns what ended the command.
func (e *CommandError) Unwrap() error { return e.err }

// Command is the docker CLI with the given arguments, directed at this engine.
func (e *Engine) Command(ctx context.Context, args ...string) *exec.Cmd {
	if e.host != "" {
		args = append([]string{"--host", e.host}, args...)
	}
	return exec.CommandContext(ctx, "docker", args...)
}

// Docker runs the docker CLI and returns its output without the white space around it. A command that fails is a
// *CommandError.
func (e *Engine) Docker(ctx context.Context, args ...string) (string, error) {
	command := e.Command(ctx, args...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", failed(ctx, args, err, stderr.Bytes())
	}
	return strings.TrimSpace(stdout.String()), nil
}

// failed makes the *CommandError of a docker command that ended with err.
func failed(ctx context.Context, args []string, err error, stderr []byte) error {
	code := -1
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	}
	if ctx.Err() != nil { // says more than "signal: killed"
		err = context.Cause(ctx)
	}
	stderr = bytes.TrimSpace(stderr)
	if len(stderr) > stderrTail {
		stderr = stderr[len(stderr)-stderrTail:]
	}
	return &CommandError{Args: args, Code: code, Stderr: string(stderr), err: err}
}
