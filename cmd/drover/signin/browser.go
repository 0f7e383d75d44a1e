// Logging in through a browser: it goes to the server, from there to the directory and back, and ends at a loopback address of
// this machine (RFC 8252, 7.3). What it brings there is worth nothing without a secret that never leaves this program.

package signin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// patience is how long a login through a browser may take.
const patience = 10 * time.Minute

// noListener is the port that a browser on another machine is sent to, where it finds nothing and shows the address.
const noListener = 49152

// errElsewhere is for requests that have nothing to do with this login.
var errElsewhere = errors.New("this address is not of the login that is under way")

func (a At) throughBrowser(ctx context.Context, p provider, paste bool, body map[string]string) error {
	verifier, answer := rand.Text()+rand.Text(), rand.Text()
	sum := sha256.Sum256([]byte(verifier))
	begin := func(port int) string {
		query := url.Values{"port": {strconv.Itoa(port)}, "challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "answer": {answer}}
		return a.Client.Server() + p.path() + "/begin?" + query.Encode()
	}
	var code string
	var err error
	if paste {
		fmt.Fprintf(a.Out, "open this in a browser, and log in:\n\n  %s\n\nIt ends at an address that begins with http://127.0.0.1:%d and shows nothing there.\n", begin(noListener), noListener)
		code, err = a.pasted(answer)
	} else {
		code, err = a.waited(ctx, begin, answer)
	}
	body["code"], body["verifier"] = code, verifier
	return err
}

// pasted reads the address that a browser ended at.
func (a At) pasted(answer string) (string, error) {
	read := a.Secret // which reads the standard input where that is no terminal
	if a.Line != nil {
		read = a.Line
	}
	line, err := read("that address: ")
	if err != nil && line == "" {
		return "", fmt.Errorf("read the address: %w", err)
	}
	u, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		return "", errElsewhere
	}
	return brought(u.Query(), answer)
}

// waited is what a browser brings to a port of this machine.
func (a At) waited(ctx context.Context, begin func(port int) string, answer string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("wait for a browser: %w", err)
	}
	type outcome struct {
		code string
		err  error
	}
	done := make(chan outcome, 1)
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		code, err := brought(r.URL.Query(), answer)
		switch {
		case r.URL.Path != "/" || errors.Is(err, errElsewhere):
			http.Error(w, errElsewhere.Error(), http.StatusNotFound)
			return
		case err != nil:
			fmt.Fprintf(w, "You are not logged in: %v\n", err)
		default:
			fmt.Fprintln(w, "You are logged in. This window can be closed.")
		}
		select {
		case done <- outcome{code, err}:
		default: // it was brought before
		}
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(ending) // what the browser is told is sent before
		<-served
	}()
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return "", errors.New("wait for a browser: the loopback address has no port")
	}
	fmt.Fprintf(a.Out, "open this in a browser on this machine, and log in (for one on another machine use --paste):\n\n  %s\n\nwaiting for it, %d minutes at most\n", begin(address.Port), int(patience.Minutes()))
	select {
	case o := <-done:
		return o.code, o.err
	case err := <-served:
		served <- err // for the end of this function
		return "", fmt.Errorf("wait for a browser: %w", err)
	case <-ctx.Done():
		return "", fmt.Errorf("no login was completed: %w", context.Cause(ctx))
	}
}

// brought is the code of an address at which a browser ended.
func brought(query url.Values, answer string) (string, error) {
	if subtle.ConstantTimeCompare([]byte(query.Get("answer")), []byte(answer)) != 1 {
		return "", errElsewhere
	}
	if problem := query.Get("error"); problem != "" {
		return "", errors.New(problem)
	}
	if query.Get("code") == "" {
		return "", errElsewhere
	}
	return query.Get("code"), nil
}
