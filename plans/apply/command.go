// What an instruction becomes: executable, arguments and environment.

package apply

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/drover-project/drover/plans"
)

const (
	envSandbox = "CATTLE_AGENT_EXECUTION_PWD"
	envAttempt = "CATTLE_AGENT_ATTEMPT_NUMBER"
	// defaultCommand is what an instruction without a command runs.
	defaultCommand = "run.sh"
	// scriptFile is the name under which an instruction's script is stored.
	scriptFile = "script"
	// scriptShell runs a script that names no interpreter.
	scriptShell = "/bin/sh"
)

// command is a process to be.
type command struct {
	path string
	args []string // the name first
	env  []string
}

// commandOf resolves an instruction. script is where its script, if it has one, is stored.
func (e *Engine) commandOf(in plans.Instruction, sandbox, script string, attempt int) (command, error) {
	c := command{env: e.instructionEnv(in.Env, sandbox, attempt)}
	switch {
	case in.Script != "" && strings.HasPrefix(in.Script, "#!"):
		c.path, c.args = script, []string{script}
	case in.Script != "":
		c.path, c.args = scriptShell, []string{scriptShell, script}
	case in.Command == "":
		c.path = filepath.Join(sandbox, defaultCommand)
		c.args = []string{c.path}
	default:
		path, err := lookUp(in.Command, sandbox, e.Path)
		if err != nil {
			return command{}, err
		}
		c.path, c.args = path, []string{in.Command}
	}
	c.args = append(c.args, in.Args...)
	return c, nil
}

// instructionEnv is the allowed part of the agent's environment, then the instruction's own
// entries, then what the contract sets over both.
func (e *Engine) instructionEnv(own []string, sandbox string, attempt int) []string {
	all := append([]string{}, e.Env()...)
	all = append(all, own...)
	all = append(all, envSandbox+"="+sandbox, envAttempt+"="+strconv.Itoa(attempt), "PATH="+e.Path+":"+sandbox)
	// The C library takes the first of two entries of one name, other programs the last.
	last := map[string]int{}
	for i, entry := range all {
		name, _, _ := strings.Cut(entry, "=")
		last[name] = i
	}
	var env []string
	for i, entry := range all {
		if name, _, _ := strings.Cut(entry, "="); last[name] == i {
			env = append(env, entry)
		}
	}
	return env
}

// lookUp finds a command: a bare name in the agent's PATH and not in the sandbox, anything
// with a slash relative to the sandbox.
func lookUp(name, sandbox, path string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	if strings.Contains(name, "/") {
		return filepath.Join(sandbox, name), nil
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // the agent's own working directory cannot be chosen
		}
		full := filepath.Join(dir, name)
		if info, err := os.Stat(full); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return full, nil
		}
	}
	return "", fmt.Errorf("command %q is not in the agent's PATH %s", name, path)
}
