package cli

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
)

// playDocker is a docker client for scripts: it asks the host that DOCKER_HOST names.
func playDocker() {
	socket := strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Args[1] == "fail" {
		fmt.Fprintln(os.Stderr, "docker says no")
		os.Exit(7)
	}
	fmt.Fprint(conn, "GET /containers/json HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n")
	if os.Args[1] == "slow" { // as docker run -i does at the end of its input
		if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Args[1] == "slow" {
		fmt.Println("answer after the end of input")
		os.Exit(0)
	}
	fmt.Printf("docker %s: %s\n", strings.Join(os.Args[1:], " "), body)
	file, errFile := os.Stat(socket)
	dir, errDir := os.Stat(filepath.Dir(socket))
	if errFile == nil && errDir == nil {
		fmt.Printf("socket %s in %s\n", file.Mode().Perm(), dir.Mode().String())
	}
}

// playNodeAgent is a node agent for scripts: node-agent FILE NAME ADDRESS, where the file has
// the join command. It ends with 1 when the server refuses it as a second host.
func playNodeAgent() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	command, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	said := map[string]string{}
	words := strings.Fields(string(command))
	for i, word := range words[:len(words)-1] {
		said[word] = words[i+1]
	}
	name := os.Args[2]
	params, err := connect.Encode(connect.Params{Node: &connect.Node{
		RequestedHostname: name, Etcd: true, ControlPlane: true, Worker: true, CustomConfig: &connect.CustomConfig{Address: os.Args[3]},
		DockerInfo: &connect.DockerInfo{ServerVersion: "20.10.24", Driver: "overlay2", CgroupDriver: "systemd"},
	}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pem, err := os.ReadFile(filepath.Join(os.Getenv("DROVER_DATA_DIR"), "tls", "ca.crt"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	header := http.Header{connect.TokenHeader: {said["--token"]}, connect.ParamsHeader: {params}}
	_ = tunnel.NewClient(tunnel.ClientOptions{
		URL: "wss" + strings.TrimPrefix(said["--server"], "https") + connect.RegisterPath, Header: func() http.Header { return header },
		TLS: &tls.Config{RootCAs: roots}, Dial: playTargets(name),
		Changed: func(s tunnel.Status) {
			if s.Cause != nil && strings.Contains(s.Cause.Error(), "409") {
				fmt.Fprintln(os.Stderr, s.Cause)
				os.Exit(1)
			}
		},
	}).Run(ctx)
}

// playTargets are a Docker socket and the agent's own service.
func playTargets(name string) tunnel.DialFunc {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_ping", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "OK") })
	mux.HandleFunc("GET /containers/json", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(300 * time.Millisecond) // longer than it takes to notice that the asker sends no more
		fmt.Fprintf(w, "%s %s by %s", r.Method, r.URL.Path, name)
	})
	mux.HandleFunc("GET /v1/logs", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("container") == "kubelet" {
			fmt.Fprintf(w, "the log of kubelet, %s lines, by %s\n", q.Get("tail"), name)
			return
		}
		http.Error(w, "no such container", http.StatusNotFound)
	})
	server := &http.Server{Handler: mux}
	return func(_ context.Context, network, address string) (net.Conn, error) {
		if target := network + " " + address; target != "unix /var/run/docker.sock" && target != "tcp drover-agent:80" {
			return nil, &tunnel.RefusedError{Network: network, Address: address, Reason: "not offered"}
		}
		here, there := net.Pipe()
		go func() { _ = server.Serve(&once{conn: there, closed: make(chan struct{})}) }()
		return here, nil
	}
}

// once is a listener with one connection.
type once struct {
	conn   net.Conn
	closed chan struct{}
}

func (o *once) Accept() (net.Conn, error) {
	if c := o.conn; c != nil {
		o.conn = nil
		return c, nil
	}
	<-o.closed
	return nil, net.ErrClosed
}
func (o *once) Close() error   { return nil }
func (o *once) Addr() net.Addr { return &net.UnixAddr{} }
