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
	if os.Args[1] == "run" {
		if err := playRun(conn.(*net.UnixConn)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	fmt.Fprint(conn, "GET /containers/json HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n")
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
	fmt.Printf("docker %s: %s\n", strings.Join(os.Args[1:], " "), body)
	file, errFile := os.Stat(socket)
	dir, errDir := os.Stat(filepath.Dir(socket))
	if errFile == nil && errDir == nil {
		fmt.Printf("socket %s in %s\n", file.Mode().Perm(), dir.Mode().String())
	}
}

// playRun is docker run -i: it sends its input to the end, and prints what comes.
func playRun(conn *net.UnixConn) error {
	fmt.Fprint(conn, "POST /attach HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	in := bufio.NewReader(conn)
	if _, err := http.ReadResponse(in, nil); err != nil {
		return err
	}
	if _, err := io.Copy(conn, os.Stdin); err != nil {
		return err
	}
	if err := conn.CloseWrite(); err != nil {
		return err
	}
	_, err := io.Copy(os.Stdout, in)
	return err
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
		if token, ok := strings.CutPrefix(word, "CATTLE_TOKEN="); ok {
			said["token"] = token
		}
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
	targets, err := playTargets(name)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	header := http.Header{connect.TokenHeader: {said["token"]}, connect.ParamsHeader: {params}, "User-Agent": {"rancher-agent/v9.8.7 (linux/amd64) drover"}}
	_ = tunnel.NewClient(tunnel.ClientOptions{
		URL: "wss" + strings.TrimPrefix(said["--server"], "https") + connect.RegisterPath, Header: func() http.Header { return header },
		TLS: &tls.Config{RootCAs: roots}, Dial: targets,
		Changed: func(s tunnel.Status) {
			if s.Cause != nil && strings.Contains(s.Cause.Error(), "409") {
				fmt.Fprintln(os.Stderr, s.Cause)
				os.Exit(1)
			}
		},
	}).Run(ctx)
}

// playTargets are a Docker socket and the agent's own service.
func playTargets(name string) (tunnel.DialFunc, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_ping", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "OK") })
	mux.HandleFunc("GET /containers/json", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s by %s", r.Method, r.URL.Path, name)
	})
	mux.HandleFunc("POST /attach", func(w http.ResponseWriter, _ *http.Request) {
		conn, err := tunnel.Hijack(w)
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
		input, err := io.ReadAll(conn)
		fmt.Fprintf(conn, "%s read %d bytes to their end, %v", name, len(input), err)
	})
	mux.HandleFunc("GET /v1/logs", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("container") == "kubelet" {
			fmt.Fprintf(w, "the log of kubelet, %s lines, by %s\n", q.Get("tail"), name)
			return
		}
		http.Error(w, "no such container", http.StatusNotFound)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() { _ = http.Serve(listener, mux) }() // as long as the program
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if target := network + " " + address; target != "unix /var/run/docker.sock" && target != "tcp drover-agent:80" {
			return nil, &tunnel.RefusedError{Network: network, Address: address, Reason: "not offered"}
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
	}, nil
}
