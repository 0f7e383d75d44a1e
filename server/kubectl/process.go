// The process of a line: what the server's program is started with, and what the host takes from it.

package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownUser is the user, and the group, that a server of root's runs kubectl as: a number that systemd's table of users and
// groups leaves unused, so that no other program of the host runs as it.
const ownUser = 65533

// Socket is the descriptor on which the process hands over its connections.
const Socket = 3

// apart are the namespaces of the process's own: no network but a loopback interface that is down.
const apart = syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS

// confinement is how a process is kept from the rest of the host.
type confinement struct {
	attributes syscall.SysProcAttr
	// lacks is what the log says when nothing better is permitted.
	lacks string
}

// confinements of a server that runs as this user, the best first. Containers often forbid namespaces, some hosts those of
// users.
func confinements(uid, gid int) []confinement {
	const shared = "the terminal's kubectl shares the network of this host, as the kernel permits no namespaces here; it has no way to use it but faults in kubectl itself"
	if uid == 0 {
		own := &syscall.Credential{Uid: ownUser, Gid: ownUser}
		mapped := []syscall.SysProcIDMap{{ContainerID: ownUser, HostID: ownUser, Size: 1}}
		return []confinement{
			{attributes: syscall.SysProcAttr{Credential: own, Cloneflags: apart}},
			{attributes: syscall.SysProcAttr{
				Credential: own, Cloneflags: apart | syscall.CLONE_NEWUSER, UidMappings: mapped, GidMappings: mapped, GidMappingsEnableSetgroups: true,
			}},
			{attributes: syscall.SysProcAttr{Credential: own}, lacks: shared},
		}
	}
	return []confinement{
		{attributes: syscall.SysProcAttr{
			Cloneflags:  apart | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		}},
		{lacks: shared},
	}
}

// begin starts a process in the best confinement that the host permits, which is found by the first.
func (r *Runner) begin(ctx context.Context, input []byte, socket *os.File, out io.Writer) (*exec.Cmd, error) {
	r.mu.Lock()
	from := r.confined
	r.mu.Unlock()
	var refused error
	for at, confined := range confinements(os.Geteuid(), os.Getegid()) {
		if at < from {
			continue
		}
		c := command(ctx, confined.attributes, input, socket, out)
		err := c.Start()
		if err == nil {
			r.found(at, confined.lacks, refused)
			return c, nil
		}
		if refused = err; !slices.ContainsFunc(notHere, func(one error) bool { return errors.Is(err, one) }) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w (user %d needs to be able to run the server's program)", refused, ownUser)
}

// notHere are the errors of a host that does not permit a confinement.
var notHere = []error{fs.ErrPermission, syscall.EINVAL, syscall.ENOSPC, errors.ErrUnsupported}

// found keeps the confinement that works for the lines to come, and says once what it lacks.
func (r *Runner) found(at int, lacks string, refused error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at > r.confined {
		if r.confined = at; lacks != "" && r.Logger != nil {
			r.Logger.Warn(lacks, "error", refused)
		}
	}
}

// command is a process that was not started yet.
func command(ctx context.Context, attributes syscall.SysProcAttr, input []byte, socket *os.File, out io.Writer) *exec.Cmd {
	// By the kernel's own name it is this very program, also after an update has put another in its place, and wherever it
	// is that other users may not look.
	c := exec.CommandContext(ctx, "/proc/self/exe")
	c.Args, c.Env, c.Dir = []string{Program}, []string{"GOMEMLIMIT=" + memory}, "/"
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(input), out, out
	c.ExtraFiles = []*os.File{socket} // as Socket
	c.WaitDelay = time.Second
	attributes.Pdeathsig = syscall.SIGKILL
	c.SysProcAttr = &attributes
	return c
}

// process is the process of one line, from its begin to its end.
func (r *Runner) process(ctx context.Context, input []byte, socket *os.File, out io.Writer) error {
	ended := make(chan error, 1)
	go func() {
		// It dies with the thread that started it, which therefore stays until it is over. The thread is not used again: what it
		// gives away here is inherited by the process, from its begin and by all its threads.
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			ended <- fmt.Errorf("give up new privileges: %w", err)
			return
		}
		c, err := r.begin(ctx, input, socket, out)
		if err == nil {
			err = c.Wait()
		}
		ended <- err
	}()
	return <-ended
}
