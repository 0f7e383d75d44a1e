// Package check looks at what a server needs of its host, before it starts or beside it: drover server check. It changes nothing but a
// file of its own in the data directory, by which it measures the disk, and which it removes.
package check

import (
	"context"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Level is how bad a finding is.
type Level string

// The levels of findings. With an Error a server does not start, or hosts and people do not reach it.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Error   Level = "error"
)

// Finding is what one look has found.
type Finding struct {
	// Check names what was looked at, such as "disk".
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Says is a sentence with what was found, Do what a person can do about it; empty where nothing is to be done.
	Says string `json:"says"`
	Do   string `json:"do,omitempty"`
}

// Input is what a server would start with.
type Input struct {
	DataDir, Listen, ServerURL    string
	CertFile, CertKeyFile, CAFile string
	EncryptionKeyFile             string
	Endpoints                     []string
	EndpointTLS                   *tls.Config
	Environ                       func(string) string
	Now                           func() time.Time
	// Program is this program's file, whose time the clock cannot be before; empty is not looked at.
	Program string
	// Running says whether a server of this data directory answers on this host.
	Running bool
}

// Run looks at everything, in the order in which a server would miss it.
func Run(ctx context.Context, in Input) []Finding {
	var all []Finding
	for _, look := range []func(context.Context, Input) []Finding{
		clock, files, content, disk, limits, externalStore, port, certificate, address, proxy,
	} {
		all = append(all, look(ctx, in)...)
	}
	return all
}

// Worst is the worst level of findings.
func Worst(all []Finding) Level {
	worst := OK
	for _, f := range all {
		if f.Level == Error || worst == OK {
			worst = f.Level
		}
	}
	return worst
}

func one(f Finding) []Finding { return []Finding{f} }

// Answers says whether the server with a data directory answers on this host, in a time; any certificate will do.
func Answers(ctx context.Context, dataDir string, within time.Duration) bool {
	address, err := os.ReadFile(filepath.Join(dataDir, "local-url"))
	if err != nil {
		return false // it was never started, or not yet
	}
	client := &http.Client{Timeout: within, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // #nosec G402 -- it is asked whether it answers, and told nothing
	}}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSpace(string(address))+"/ping", nil)
	if err != nil {
		return false
	}
	answer, err := client.Do(q)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
