package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"
)

// netcat is the part of Alpine's nc that port checks use, which Debian's busybox lacks: `nc -kl -p PORT -e PROGRAM`
// takes connections for ever and closes them, `nc -w SECONDS -z HOST PORT` knocks.
func netcat(ctx context.Context, args []string) error {
	line := strings.Join(args, " ")
	var port, host, seconds string
	if n, _ := fmt.Sscanf(line, "-kl -p %s", &port); n == 1 {
		return takeKnocks(ctx, port)
	}
	if n, _ := fmt.Sscanf(line, "-w %s -z %s %s", &seconds, &host, &port); n != 3 {
		return fmt.Errorf("nc %s: is neither of the two forms that there are", line)
	}
	wait, err := time.ParseDuration(seconds + "s")
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{Timeout: wait}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	return conn.Close()
}

func takeKnocks(ctx context.Context, port string) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", ":"+port)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		conn.Close()
	}
}
