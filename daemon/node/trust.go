// The certificate authority of the server: pinned by its checksum, fetched once, kept as
// a file, and the same for every connection of the agent.

package node

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/drover-project/drover/plans/durable"
)

// maxCA bounds a bundle of certificates, in bytes.
const maxCA = 1 << 20

// Where the pinned CA is kept, for the agent, for people, and for Docker's pulls.
const (
	caFile      = "/etc/kubernetes/ssl/certs/serverca"
	dockerCerts = "/etc/docker/certs.d"
)

type trust struct {
	server   *url.URL
	checksum string
	strict   bool
	root     string
	board    *board
	log      *slog.Logger

	mu     sync.Mutex
	config *tls.Config // nil until it is known whom to trust
}

func newTrust(o Options, b *board) *trust {
	t := &trust{server: o.Server, checksum: strings.ToLower(o.CAChecksum), strict: o.StrictVerify, root: o.Root, board: b, log: o.Logger}
	if t.checksum == "" {
		t.config = &tls.Config{MinVersion: tls.VersionTLS12}
		b.set(onCA, nil)
	}
	return t
}

// tls is the trust of a connection. It fetches the pinned CA when there is none yet.
func (t *trust) tls(ctx context.Context) (*tls.Config, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.config != nil {
		return t.config.Clone(), nil
	}
	config, err := t.learn(ctx)
	t.board.set(onCA, err)
	if err != nil {
		return nil, err
	}
	t.config = config
	return config.Clone(), nil
}

func (t *trust) learn(ctx context.Context) (*tls.Config, error) {
	path := filepath.Join("/", t.root, caFile)
	if b, err := durable.ReadFile(path, maxCA); err == nil && t.matches(b) {
		return t.pool(b)
	}
	b, err := t.fetch(ctx)
	if err != nil {
		return nil, err
	}
	config, err := t.pool(b)
	if err != nil {
		return nil, err
	}
	for _, one := range []string{path, filepath.Join("/", t.root, dockerCerts, t.server.Host, "ca.crt")} {
		err := os.MkdirAll(filepath.Dir(one), 0o755)
		if err == nil {
			err = durable.WriteFile(one, b, 0o600)
		}
		if err != nil { // it is fetched again the next time
			t.log.Warn("the server's CA cannot be kept", "file", one, "error", err)
		}
	}
	return config, nil
}

// fetch gets the bundle from whoever answers and compares it with the pin, by the text of
// the setting and by the plain file: servers differ in the newline at the end.
func (t *trust) fetch(ctx context.Context) ([]byte, error) {
	setting := t.server.String() + "/v3/settings/cacerts"
	text, err := t.setting(ctx, setting)
	if err != nil {
		plain, plainErr := get(ctx, t.server.String()+"/cacerts")
		if plainErr != nil {
			return nil, fmt.Errorf("fetch the server's CA: %w", err)
		}
		setting, text = t.server.String()+"/cacerts", string(plain)
	}
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("%s is empty, but --ca-checksum was given: the server has a publicly trusted certificate; leave --ca-checksum out", setting)
	}
	b := []byte(strings.TrimSpace(text) + "\n")
	if _, err := t.pool(b); err != nil {
		return nil, fmt.Errorf("ERROR: Value from %s does not look like an x509 certificate (%w)", setting, err)
	}
	t.log.Info(fmt.Sprintf("INFO: Value from %s is an x509 certificate", setting))
	if !t.matches(b) && !t.matches([]byte(text)) {
		return nil, fmt.Errorf("ERROR: Configured cacerts checksum (%s) does not match given --ca-checksum (%s): somebody else may be answering, or the server has another CA now; take the command again from the server", sum(b), t.checksum)
	}
	return b, nil
}

func (t *trust) setting(ctx context.Context, address string) (string, error) {
	b, err := get(ctx, address)
	if err != nil {
		return "", err
	}
	var s struct {
		Value *string `json:"value"`
	}
	if err := json.Unmarshal(b, &s); err != nil || s.Value == nil {
		return "", fmt.Errorf("%s answers with something that is no setting; is it the management server?", address)
	}
	return *s.Value, nil
}

func get(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	answer, err := unverified().Do(q)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(io.LimitReader(answer.Body, maxCA+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxCA:
		return nil, fmt.Errorf("%s has more than %d bytes", address, maxCA)
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answers %s", address, answer.Status)
	}
	return b, nil
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

func (t *trust) matches(b []byte) bool {
	return subtle.ConstantTimeCompare([]byte(sum(b)), []byte(t.checksum)) == 1
}

// pool trusts a bundle, alone when verification is strict, and beside the system's otherwise.
func (t *trust) pool(b []byte) (*tls.Config, error) {
	roots := x509.NewCertPool()
	if !t.strict {
		if system, err := x509.SystemCertPool(); err == nil {
			roots = system
		}
	}
	if !roots.AppendCertsFromPEM(b) {
		return nil, errors.New("there is no PEM certificate in it")
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}
