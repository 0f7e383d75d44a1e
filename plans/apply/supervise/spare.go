// A supervisor that is started before its command is known. It is a program of the
// agent's size, whose start takes as long as all else that stands between a plan and its
// first instruction, so it waits ready. A socket joins the two. By it the supervisor gets
// its directory, in which it makes itself at home while the agent still writes down what it
// is about to do; then the word to begin; and it announces the result, while that is
// being made durable.

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
	// beginWord has a spare supervisor begin.
	beginWord = 'b'
)

// Spare is a supervisor that waits for the directory of its command. It ends by itself
// when the process that started it does.
type Spare struct {
	identity Identity
	process  *exec.Cmd
	socket   *os.File
	dir      string // of the command, once it is known
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
	if err := s.Expect(dir); err != nil {
		s.Close()
		return nil, err
	}
	return s.Begin()
}

// Expect gives the supervisor the directory of its command, which exists. The command need
// not be there before Begin.
func (s *Spare) Expect(dir string) error {
	if len(dir) > maxPath {
		return fmt.Errorf("the directory's name is longer than %d bytes", maxPath)
	}
	if _, err := s.socket.WriteString(dir + "\x00"); err != nil {
		return fmt.Errorf("send the spare supervisor its directory: %w", err)
	}
	s.dir = dir
	return nil
}

// Begin has the supervisor begin, after Expect. After an error the command did not start,
// and will not.
func (s *Spare) Begin() (*Running, error) {
	if _, err := s.socket.Write([]byte{beginWord}); err != nil {
		s.Close()
		return nil, fmt.Errorf("have the spare supervisor begin: %w", err)
	}
	if err := s.process.Process.Release(); err != nil {
		return nil, errors.Join(err, s.socket.Close())
	}
	running := watch(s.dir, s.identity)
	running.announced = s.socket
	return running, nil
}

// Close ends a supervisor that is not needed, and waits for its end.
func (s *Spare) Close() {
	_ = s.socket.Close()
	_ = s.process.Wait() // it did nothing, so there is nothing to learn from how it ended
}

// caller is the agent that started a spare supervisor, as that sees it.
type caller struct {
	words *bufio.Reader
	to    io.Writer
}

func newCaller(socket *os.File) *caller {
	return &caller{words: bufio.NewReaderSize(socket, maxPath+2), to: socket}
}

// directory waits for the directory of the command; ok is false when none came.
func (c *caller) directory() (dir string, ok bool, err error) {
	b, err := c.words.ReadSlice(0)
	switch {
	case errors.Is(err, io.EOF):
		return "", false, nil
	case err != nil:
		return "", false, err
	}
	dir = string(b[:len(b)-1])
	log, err := os.OpenFile(filepath.Join(dir, supervisorLog), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", false, err
	}
	return dir, true, errors.Join(unix.Dup3(int(log.Fd()), int(os.Stderr.Fd()), 0), log.Close())
}

// mayBegin waits for the word; false is the end of the agent, or that it does not want
// the command any more.
func (c *caller) mayBegin() bool {
	word, err := c.words.ReadByte()
	return err == nil && word == beginWord
}

// announce sends an agent that waits the result, and leaves it the disk for a moment: it
// has better to do there than to wait for the supervisor's own record, which is for an agent
// that is not there. One that has gone, or goes, finds the result in its file.
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
