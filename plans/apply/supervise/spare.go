// A supervisor that is started before its command is known. It is a program of the
// agent's size, whose start takes as long as all else that stands between a plan and its
// first instruction, so it waits ready, in a directory that has all that a supervisor makes.
// A socket joins the two. By it the supervisor gets the name that its directory is given
// for a command, and the word to begin; and it announces the result, while that is being
// made durable.

package supervise

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// unknown in place of a directory has a supervisor read it from its standard input.
const unknown = "-"

const (
	// maxPath is the longest directory's name.
	maxPath = 4096
	// agentFirst is how long an announced result is held back from the disk.
	agentFirst = 25 * time.Millisecond
	// settleLimit is how long a spare supervisor may take to start.
	settleLimit = 10 * time.Second
	// beginWord has a spare supervisor begin.
	beginWord = 'b'
)

// Spare is a supervisor that waits for the directory of its command. It ends by itself
// when the process that started it does.
type Spare struct {
	identity Identity
	process  *exec.Cmd
	socket   *os.File
	dir      string // where it waits, and then that of its command
}

// StartSpare starts a supervisor as Start does, to wait in home, which it makes. It must be
// taken or closed. It returns an error for a path that no socket can have, and those of Start; the directory is gone then.
func StartSpare(argv []string, home string) (*Spare, error) {
	if len(home) > maxPath {
		return nil, fmt.Errorf("the directory's name is longer than %d bytes", maxPath)
	}
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory for a spare supervisor: %w", err)
	}
	s, err := startSpare(argv, home)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	return s, nil
}

func startSpare(argv []string, home string) (*Spare, error) {
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
	s := &Spare{process: cmd, socket: ours, dir: home}
	if s.identity, err = identify(cmd.Process.Pid); err == nil {
		err = s.welcome()
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("wait for the spare supervisor: %w", err)
	}
	return s, nil
}

// welcome gives the supervisor its home and waits until it has settled there.
func (s *Spare) welcome() error {
	if _, err := s.socket.WriteString(s.dir + "\x00"); err != nil {
		return err
	}
	if err := s.socket.SetReadDeadline(time.Now().Add(settleLimit)); err != nil {
		return err
	}
	_, err := io.ReadFull(s.socket, make([]byte, 1))
	return err
}

// Identity is that of the supervisor.
func (s *Spare) Identity() Identity { return s.identity }

// Expect gives the supervisor's directory the name dir, which is not there. The command is
// written into it before Begin.
func (s *Spare) Expect(dir string) error {
	if len(dir) > maxPath {
		return fmt.Errorf("the directory's name is longer than %d bytes", maxPath)
	}
	if err := os.Rename(s.dir, dir); err != nil {
		return fmt.Errorf("give the spare supervisor its directory: %w", err)
	}
	s.dir = dir
	if _, err := s.socket.WriteString(dir + "\x00"); err != nil {
		return fmt.Errorf("send the spare supervisor its directory: %w", err)
	}
	return nil
}

// Begin has the supervisor begin, after Expect. After an error the command did not start.
func (s *Spare) Begin() (*Running, error) {
	if _, err := s.socket.Write([]byte{beginWord}); err != nil {
		s.Close()
		return nil, fmt.Errorf("have the spare supervisor begin: %w", err)
	}
	_ = s.process.Process.Release() // it frees what is ours, and the supervisor is at work
	running := watch(s.dir, s.identity)
	running.announced = s.socket
	return running, nil
}

// Close ends a supervisor that is not needed, waits for its end and removes its directory.
func (s *Spare) Close() {
	_ = s.socket.Close()
	_ = s.process.Wait() // it did nothing, so there is nothing to learn from how it ended
	_ = os.RemoveAll(s.dir)
}

// caller is the agent that started a spare supervisor, as that sees it.
type caller struct {
	words *bufio.Reader
	to    io.Writer
}

func newCaller(socket *os.File) *caller {
	return &caller{words: bufio.NewReaderSize(socket, maxPath+2), to: socket}
}

// directory waits for the name of a directory; ok is false when none came.
func (c *caller) directory() (dir string, ok bool, err error) {
	b, err := c.words.ReadSlice(0)
	switch {
	case errors.Is(err, io.EOF):
		return "", false, nil
	case err != nil:
		return "", false, err
	}
	return string(b[:len(b)-1]), true, nil
}

// settle makes in the directory in which a spare supervisor waits what any makes in that of its
// command: its log, which its standard error becomes, who it is, and room for the result.
func settle(home string, id Identity) (result *os.File, err error) {
	log, err := os.OpenFile(filepath.Join(home, supervisorLog), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(unix.Dup3(int(log.Fd()), int(os.Stderr.Fd()), 0), log.Close()); err != nil {
		return nil, err
	}
	if err := writeIdentity(home, id); err != nil {
		return nil, err
	}
	return reserveResult(home)
}

// settled says that the first directory can be given another name.
func (c *caller) settled() error {
	_, err := c.to.Write([]byte{beginWord})
	return err
}

// mayBegin waits for the word; false is the end of the agent, or that it does not want
// the command any more.
func (c *caller) mayBegin() bool {
	word, err := c.words.ReadByte()
	return err == nil && word == beginWord
}

// announce sends an agent that waits the result, and leaves it the disk for a moment: it
// has better to do there than to wait for the supervisor's own record, which is for an agent
// that is not there. A supervisor that has gone, or goes, finds the result in its file.
func (c *caller) announce(r Result) {
	b, err := json.Marshal(r)
	if err != nil {
		return
	}
	if _, err := c.to.Write(append(b, '\n')); err != nil {
		return
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = c.words.ReadByte()
	}()
	select {
	case <-gone:
	case <-time.After(agentFirst):
	}
}
