// Changes of the host's network: after one the server may be within reach again, however
// long the pause until it would have been tried.

package daemon

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plans/backoff"
)

// networkPause is the least distance of two wake-ups: networks of containers change all the time.
const networkPause = 3 * time.Second

// heedNetwork wakes the watch of the plan Secret after changes of links, addresses and routes.
func (a *agent) heedNetwork(ctx context.Context) error {
	changes, err := networkChanges()
	if err != nil {
		a.Logger.Debug("changes of the network are not noticed", "error", err)
		<-ctx.Done()
		return ctx.Err()
	}
	stop := context.AfterFunc(ctx, func() { changes.Close() })
	defer stop()
	defer changes.Close()
	message := make([]byte, 64<<10)
	for {
		// Messages that were lost, because there were too many, are changes too.
		if _, err := changes.Read(message); err != nil && ctx.Err() == nil {
			a.Logger.Debug("changes of the network were lost", "error", err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if c := a.connection.Load(); c != nil {
			c.remote.Wake()
		}
		if err := backoff.Wait(ctx, networkPause); err != nil {
			return err
		}
	}
}

// networkChanges has a message of the kernel for each change.
func networkChanges() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	groups := uint32(unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR | unix.RTMGRP_IPV4_ROUTE | unix.RTMGRP_IPV6_ROUTE)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind a netlink socket: %w", err)
	}
	return os.NewFile(uintptr(fd), "netlink"), nil
}
