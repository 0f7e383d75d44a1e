// The directory of one command: what the agent and the supervisor write into it.
//
//	command.json   the agent: what to run; not there means there is nothing to run
//	claimed        command.json, renamed by the supervisor before it starts the command
//	void           command.json, renamed by an agent that will not have it started any more
//	supervisor.json  the supervisor: who it is, written before the claim
//	output.NNNNNN  the supervisor: what the command printed, see package output
//	result.json    the supervisor: how it ended
//	kill           the agent: the command is to be killed
//	told           the agent: how far the output was reported, see apply
//
// The process that renames command.json first decides whether the command runs, so it runs at
// most once, in any order of crashes.

package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/plans/durable"
)

const (
	commandFile    = "command.json"
	claimedFile    = "claimed"
	voidFile       = "void"
	identityFile   = "supervisor.json"
	resultFile     = "result.json"
	killFile       = "kill"
	supervisorLog  = "supervisor.log"
	schema         = 1
	maxCommandSize = 8 << 20 // a plan's instruction with all its arguments
	maxResultSize  = 64 << 10
)

// Command is what a supervisor runs.
type Command struct {
	Schema int `json:"schema"`
	// Path is the executable, absolute.
	Path string `json:"path"`
	// Args are the arguments, the command's own name first.
	Args []string `json:"args"`
	Env  []string `json:"env"`
	// Dir is the working directory.
	Dir string `json:"dir"`
	// OutputLimit is how many bytes of output are kept, half from the beginning and half from the end.
	OutputLimit int `json:"outputLimit"`
	// Timeout ends the command when it runs longer; 0 means never.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Grace is what a command gets between SIGTERM and SIGKILL; 0 means 10 s.
	Grace time.Duration `json:"grace,omitempty"`
	// Drain is how long output is awaited after the command exited while a process that it
	// left behind keeps the pipe open; 0 means 2 s.
	Drain time.Duration `json:"drain,omitempty"`
}

// Result is how a command ended.
type Result struct {
	Schema int `json:"schema"`
	// ExitCode is -1 when the command did not start or a signal ended it.
	ExitCode int `json:"exitCode"`
	// Signal is the name of the signal that ended the command.
	Signal string `json:"signal,omitempty"`
	// Error says why the command did not start.
	Error string `json:"error,omitempty"`
	// TimedOut and Killed say why the supervisor ended the command.
	TimedOut bool `json:"timedOut,omitempty"`
	Killed   bool `json:"killed,omitempty"`
	// Limit is the command's Timeout, when that ended it.
	Limit time.Duration `json:"limit,omitempty"`
	// Written is how many bytes the command printed, kept or not.
	Written int64     `json:"written"`
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
}

// Succeeded says whether the command ran and exited with 0 of its own accord.
func (r Result) Succeeded() bool {
	return r.ExitCode == 0 && r.Error == "" && !r.TimedOut && !r.Killed
}

// Reason says in a few words how the command failed; empty for a success.
func (r Result) Reason() string {
	switch {
	case r.Error != "":
		return r.Error
	case r.TimedOut:
		return fmt.Sprintf("killed after its time limit of %s", r.Limit)
	case r.Killed:
		return "killed because the plan was cancelled"
	case r.Signal != "":
		return "ended by signal " + r.Signal
	case r.ExitCode != 0:
		return fmt.Sprintf("exit code %d", r.ExitCode)
	}
	return ""
}

// Prepare makes dir and writes the command into it, for a supervisor to run. It is whole or
// not there for any process, but not synced: after a crash of the host nothing of it runs any
// more, and what had been started is known to the caller.
func Prepare(dir string, c Command) error {
	if err := Write(dir, c); err != nil {
		return err
	}
	return Offer(dir)
}

// Write makes dir and writes the command into it under a name that no supervisor looks for. The errors are those of the file system.
func Write(dir string, c Command) error {
	c.Schema = schema
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.WriteFile(filepath.Join(dir, commandFile)+".tmp", b, 0o600)
}

// Offer has the command written in dir run by whichever supervisor finds it first. The errors are those of renaming.
func Offer(dir string) error {
	path := filepath.Join(dir, commandFile)
	return os.Rename(path+".tmp", path)
}

// rename puts a file in its place in one step, without syncing it.
func rename(path string, b []byte) error {
	if err := os.WriteFile(path+".tmp", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

func readCommand(dir string) (Command, error) {
	var c Command
	if err := readJSON(filepath.Join(dir, commandFile), maxCommandSize, &c); err != nil {
		return Command{}, err
	}
	if c.Schema != schema {
		return Command{}, fmt.Errorf("%s has schema %d, this supervisor knows %d", commandFile, c.Schema, schema)
	}
	return c, nil
}

// readResult is the result in dir; ok is false while there is none.
func readResult(dir string) (r Result, ok bool, err error) {
	err = readJSON(filepath.Join(dir, resultFile), maxResultSize, &r)
	if errors.Is(err, fs.ErrNotExist) {
		return Result{}, false, nil
	}
	if err == nil && r.Schema > schema {
		err = fmt.Errorf("%s has schema %d, this agent knows %d", filepath.Join(dir, resultFile), r.Schema, schema)
	}
	return r, err == nil, err
}

func readJSON(path string, limit int64, into any) error {
	b, err := durable.ReadFile(path, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
