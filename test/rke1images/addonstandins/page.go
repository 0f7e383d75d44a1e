package main

// A page for the tests' own pods, which names its pod, and asks for what it is told to.

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// page answers /?get=ADDRESS with what it fetches there, anew each time, /?lookup=NAME with the addresses of a name, and
// else with the pod's name.
func page(ctx context.Context, _ []string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer := func(r *http.Request) (string, error) {
		switch q := r.URL.Query(); {
		case q.Has("lookup"):
			all, err := net.DefaultResolver.LookupHost(r.Context(), q.Get("lookup"))
			return strings.Join(all, " "), err
		case q.Has("get"):
			request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, q.Get("get"), nil)
			if err != nil {
				return "", err
			}
			a, err := client.Do(request)
			if err != nil {
				return "", err
			}
			defer a.Body.Close()
			text, err := io.ReadAll(io.LimitReader(a.Body, 1<<10))
			return string(text), err
		}
		return name, nil
	}
	listen(ctx, ":8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := answer(r)
		if err != nil {
			text = "error: " + err.Error()
		}
		fmt.Fprint(w, text)
	}))
	<-ctx.Done()
	return nil
}
