// Reading both streams of a command in the order they were written, as far as two pipes
// let one know it: a pipe remembers the order of its own bytes only. epoll lists pipes in
// the order in which they became readable, and one thread reads from each just what it
// held when its turn came; so only writes to both within the time of one wake-up can
// change places.

package supervise

import (
	"errors"
	"os"

	"github.com/drover-project/drover/plans/apply/output"

	"golang.org/x/sys/unix"
)

// drain is two pipes and where their bytes go.
type drain struct {
	record  func(output.Stream, []byte)
	epoll   int
	streams map[int32]output.Stream // by descriptor; those that have not ended
	buf     []byte
}

// newDrain makes the pipes and returns the ends that the command writes to.
func newDrain(record func(output.Stream, []byte)) (d *drain, stdout, stderr *os.File, err error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, nil, nil, err
	}
	d = &drain{record: record, epoll: epoll, streams: map[int32]output.Stream{}, buf: make([]byte, output.MaxRecord)}
	stdout, errOut := d.pipe(output.Stdout)
	stderr, errErr := d.pipe(output.Stderr)
	if err := errors.Join(errOut, errErr); err != nil {
		d.close()
		return nil, nil, nil, errors.Join(err, closeAny(stdout), closeAny(stderr))
	}
	return d, stdout, stderr, nil
}

func (d *drain) pipe(s output.Stream) (writer *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	d.streams[int32(fds[0])] = s // #nosec G115 -- the descriptor of an open file
	writer = os.NewFile(uintptr(fds[1]), s.String())
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fds[0])} // #nosec G115 -- the descriptor of an open file
	return writer, unix.EpollCtl(d.epoll, unix.EPOLL_CTL_ADD, fds[0], &event)
}

// run reads until both streams have ended.
func (d *drain) run() {
	defer d.close()
	events := make([]unix.EpollEvent, len(d.streams))
	for len(d.streams) > 0 {
		n, err := unix.EpollWait(d.epoll, events, -1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return // cannot be: the descriptors are our own
		}
		for _, event := range events[:n] {
			if !d.read(event) {
				d.end(event.Fd)
			}
		}
	}
}

// read takes what the pipe holds now; false means that it has ended.
func (d *drain) read(event unix.EpollEvent) bool {
	held, err := unix.IoctlGetInt(int(event.Fd), unix.TIOCINQ) // FIONREAD by its other name
	if err != nil {
		return false
	}
	if held == 0 {
		return event.Events&(unix.EPOLLHUP|unix.EPOLLERR) == 0
	}
	for held > 0 {
		n, err := unix.Read(int(event.Fd), d.buf[:min(held, len(d.buf))])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return false
		}
		d.record(d.streams[event.Fd], d.buf[:n])
		held -= n
	}
	return true
}

// end forgets a pipe; closing it takes it out of epoll.
func (d *drain) end(fd int32) {
	delete(d.streams, fd)
	unix.Close(int(fd))
}

func (d *drain) close() {
	for fd := range d.streams {
		d.end(fd)
	}
	unix.Close(d.epoll)
}

func closeAny(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}
