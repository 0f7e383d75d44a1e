// A supervisor that is started before its command is known. It is a program of the
// agent's size, whose start takes as long as all else that stands between a plan and its
// first instruction, and can go on beside that.

package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// unknown in place of a directory has a supervisor read it from its standard input.
const unknown = "-"

// maxPath is the longest directory's name, which is also what a pipe takes in one piece.
const maxPath = 4096

// Spare is a supervisor that waits for the directory of its command. It ends by itself
// when the process that started it does.
type Spare struct {
	identity Identity
	process  *exec.Cmd
	pipe     *os.File
}

// StartSpare starts a supervisor as Start does. It must be taken or closed.
func StartSpare(argv []string) (*Spare, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := process(argv, unknown)
	cmd.Stdin = read
	err = cmd.Start()
	if err = errors.Join(err, read.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("start a spare supervisor: %w", err), write.Close())
	}
	s := &Spare{process: cmd, pipe: write}
	if s.identity, err = identify(cmd.Process.Pid); err != nil {
		s.Close()
		return nil, fmt.Errorf("look up the spare supervisor: %w", err)
	}
	return s, nil
}

// Take gives the supervisor the command prepared in dir. After an error the command did
// not start, and will not.
func (s *Spare) Take(dir string) (*Running, error) {
	if len(dir) > maxPath {
		s.Close()
		return nil, fmt.Errorf("the directory's name is longer than %d bytes", maxPath)
	}
	if _, err := s.pipe.WriteString(dir); err != nil {
		s.Close()
		return nil, fmt.Errorf("tell the spare supervisor its directory: %w", err)
	}
	if err := errors.Join(s.pipe.Close(), s.process.Process.Release()); err != nil {
		return nil, err
	}
	return watch(dir, s.identity), nil
}

// Close ends a supervisor that is not needed, and waits for its end.
func (s *Spare) Close() {
	_ = s.pipe.Close()
	_ = s.process.Wait() // it did nothing, so there is nothing to learn from how it ended
}

// readDirectory waits for the directory of the command; ok is false when none came.
func readDirectory() (dir string, ok bool, err error) {
	b, err := io.ReadAll(io.LimitReader(os.Stdin, maxPath+1))
	if err != nil || len(b) == 0 || len(b) > maxPath {
		return "", false, err
	}
	dir = string(b)
	log, err := os.OpenFile(filepath.Join(dir, supervisorLog), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", false, err
	}
	return dir, true, errors.Join(unix.Dup3(int(log.Fd()), int(os.Stderr.Fd()), 0), log.Close())
}
