package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sample is how a server does over a while.
type sample struct {
	resident    int64 // bytes, the most seen
	connections int   // sockets, the most seen
	p50, p99    time.Duration
}

// measure asks as a well-behaved client, ten times a second, and looks at the process.
func (t *target) measure(ctx context.Context, during time.Duration) (s sample, err error) {
	client := t.client(1)
	defer client.CloseIdleConnections()
	var took []time.Duration
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(during); time.Now().Before(end); {
		began := time.Now()
		status, body, err := t.ask(ctx, client, http.MethodGet, "/v3/settings/server-version", t.admin, "", "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d %.200s", status, body)
		}
		if err != nil {
			return s, fmt.Errorf("the well-behaved client is not served: %w", err)
		}
		took = append(took, time.Since(began))
		resident, err := residentOf(t.pid)
		if err != nil {
			return s, fmt.Errorf("the server is gone: %w", err)
		}
		s.resident, s.connections = max(s.resident, resident), max(s.connections, socketsOf(t.pid))
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-tick.C:
		}
	}
	slices.Sort(took)
	s.p50, s.p99 = took[len(took)/2], took[len(took)*99/100]
	return s, nil
}

// ask sends one request and reads its answer.
func (t *target) ask(ctx context.Context, client *http.Client, method, path, token, contentType, body string) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, t.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return answer.StatusCode, string(text), err
}

func residentOf(pid int) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	_, after, ok := strings.Cut(string(text), "VmRSS:")
	if !ok {
		return 0, errors.New("the process has no memory")
	}
	n, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	return n << 10, err
}

func socketsOf(pid int) (n int) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
