// A supervisor that is started before its command is known. It is a program of the
// agent's size, whose start takes as long as all else that stands between a plan and its
// first instruction, so it waits ready. A socket joins the two: by it the supervisor gets
// its directory, and announces that the result is there.

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
	socket   *os.File
}

// StartSpare starts a supervisor as Start does. It must be taken or closed.
func StartSpare(argv []string) (*Spare, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket to a spare supervisor: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "spare supervisor's end")
	// Not blocking, so that the runtime can wait for it.
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, errors.Join(err, theirs.Close(), unix.Close(fds[0]))
	}
	ours := os.NewFile(uintptr(fds[0]), "spare supervisor")
	cmd := process(argv, unknown)
	cmd.Stdin = theirs
	err = cmd.Start()
	if err = errors.Join(err, theirs.Close()); err != nil {
		return nil, errors.Join(fmt.Errorf("start a spare supervisor: %w", err), ours.Close())
	}
	s := &Spare{process: cmd, socket: ours}
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
	if err := s.send(dir); err != nil {
		s.Close()
		return nil, fmt.Errorf("send the spare supervisor its directory: %w", err)
	}
	if err := s.process.Process.Release(); err != nil {
		return nil, errors.Join(err, s.socket.Close())
	}
	running := watch(dir, s.identity)
	running.announced = s.socket
	return running, nil
}

// send writes the directory and that no more will come.
func (s *Spare) send(dir string) error {
	if _, err := s.socket.WriteString(dir); err != nil {
		return err
	}
	conn, err := s.socket.SyscallConn()
	if err != nil {
		return err
	}
	var shut error
	err = conn.Control(func(fd uintptr) { shut = unix.Shutdown(int(fd), unix.SHUT_WR) })
	return errors.Join(err, shut)
}

// Close ends a supervisor that is not needed, and waits for its end.
func (s *Spare) Close() {
	_ = s.socket.Close()
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

// announce lets an agent that waits know that the result is in its place. One that has gone,
// or that started this supervisor in another way, finds out by itself.
func announce() { _, _ = os.Stdin.Write([]byte{1}) }
