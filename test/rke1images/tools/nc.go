package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// netcat is the part of Alpine's nc that port checks use, which Debian's busybox lacks: `nc -kl -p PORT -e PROGRAM`
// takes connections for ever and closes them, `nc -w SECONDS -z HOST PORT` knocks, `nc -u -l -p PORT -e head -n 1` answers one
// datagram with its first line, and `nc -u -w SECONDS HOST PORT` sends its input and prints the answer.
func netcat(ctx context.Context, args []string) error {
	line := strings.Join(args, " ")
	var port, host, seconds string
	if n, _ := fmt.Sscanf(line, "-kl -p %s", &port); n == 1 {
		return takeKnocks(ctx, port)
	}
	if rest, is := strings.CutSuffix(line, " -e head -n 1"); is {
		if n, _ := fmt.Sscanf(rest, "-u -l -p %s", &port); n == 1 {
			return answerOne(ctx, ":"+port)
		}
	}
	if n, _ := fmt.Sscanf(line, "-u -w %s %s %s", &seconds, &host, &port); n == 3 {
		return callOut(ctx, net.JoinHostPort(host, port), seconds, os.Stdin, os.Stdout)
	}
	if n, _ := fmt.Sscanf(line, "-w %s -z %s %s", &seconds, &host, &port); n != 3 {
		return fmt.Errorf("nc %s: is none of the forms that there are", line)
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

// answerOne waits for one datagram.
func answerOne(ctx context.Context, address string) error {
	conn, err := new(net.ListenConfig).ListenPacket(ctx, "udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	text := make([]byte, 64<<10)
	n, from, err := conn.ReadFrom(text)
	if err != nil {
		return err
	}
	first, _, _ := bytes.Cut(text[:n], []byte("\n"))
	_, err = conn.WriteTo(append(first, '\n'), from)
	return err
}

// callOut sends what it reads and writes what comes back in time.
func callOut(ctx context.Context, address, seconds string, in io.Reader, out io.Writer) error {
	wait, err := time.ParseDuration(seconds + "s")
	if err != nil {
		return err
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(text); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	answer := make([]byte, 64<<10)
	n, err := conn.Read(answer)
	if err != nil {
		return err
	}
	_, err = out.Write(answer[:n])
	return err
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
