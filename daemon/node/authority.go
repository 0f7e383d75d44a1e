// The server's certificate authority as this host knows it: pinned by a checksum at the
// first start, followed to another one when the server proves it by the registration
// token, kept for the next start, and the same for every connection of the agent.

package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/trust"
)

// maxCA bounds a bundle of certificates, in bytes.
const maxCA = 1 << 20

// Where the CA is kept: for people and Docker's pulls as the original does, and with what
// it was adopted under for the agent itself.
const (
	caFile      = "/etc/kubernetes/ssl/certs/serverca"
	dockerCerts = "/etc/docker/certs.d"
	adoptedFile = "/etc/kubernetes/ssl/serverca-adopted.json"
)

// adopted is a CA that the server has proved. It holds for this server and this pin: who
// gives the agent another checksum starts it for the first time.
type adopted struct {
	Server string `json:"server"`
	Pin    string `json:"pin"`
	Bundle string `json:"bundle"`
}

type authority struct {
	o          Options
	liveStatus *liveStatus
	log        *slog.Logger

	mu     sync.Mutex
	config *tls.Config // nil until it is known whom to trust
	sum    string      // checksum of the bundle in use; empty for the system's
}

func newAuthority(o Options, b *liveStatus) *authority {
	return &authority{o: o, liveStatus: b, log: o.Logger}
}

// tls is the trust of a connection, with its checksum. It fetches the pinned CA when
// there is none yet.
func (a *authority) tls(ctx context.Context) (*tls.Config, string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.config == nil {
		bundle, err := a.learn(ctx)
		if err == nil {
			err = a.use(bundle)
		}
		a.liveStatus.set(onCA, err)
		if err != nil {
			return nil, "", err
		}
	}
	return a.config.Clone(), a.sum, nil
}

// over does something over a trusted connection, and once more when it failed because of
// a CA that the server has left for another.
func (a *authority) over(ctx context.Context, do func(*tls.Config) error) error {
	config, sum, err := a.tls(ctx)
	if err != nil {
		return err
	}
	err = do(config)
	if !trust.Outdated(err) {
		return err
	}
	failed := a.follow(ctx, sum)
	switch {
	case trust.Outdated(failed): // the same once more: the clock, or a certificate that has ended
		return err
	case failed != nil:
		return fmt.Errorf("%w; %w", err, failed)
	}
	if config, _, err = a.tls(ctx); err != nil {
		return err
	}
	return do(config)
}

// follow asks the server to prove its CA and adopts it, unless another goroutine has done so since
// the trust with this checksum failed.
func (a *authority) follow(ctx context.Context, failed string) error {
	if a.o.PinAlways {
		return errPinned
	}
	if _, sum, err := a.tls(ctx); err != nil || sum != failed {
		return err
	}
	bundle, err := trust.Fetch(ctx, trust.Server{
		URL: a.o.Server.String() + "/cacerts", Token: a.o.Token, Proxy: http.ProxyFromEnvironment, Dial: a.o.dialServer, Spared: a.o.spared, Now: a.o.Now,
	})
	if err != nil {
		a.doubt(err)
		return fmt.Errorf("no new CA is adopted: %w", err)
	}
	a.log.Warn("the server has a new CA, which it has proved to know this host's token for", "old", failed, "new", trust.Checksum(bundle))
	if err := a.adopt(bundle); err != nil { // it is used all the same
		a.log.Error("the new CA could not be stored", "error", err)
	}
	return nil
}

// errPinned is what a person reads when the pin is kept.
var errPinned = errors.New("the pinned CA is kept because DROVER_CA_PIN is always; give the agent the new --ca-checksum, or unset DROVER_CA_PIN so that it follows a CA that the server can prove")

// doubt makes a server that cannot prove its CA known as such.
func (a *authority) doubt(err error) {
	var unproven *trust.NotProvenError
	if errors.As(err, &unproven) {
		a.liveStatus.set(onCA, unproven)
	}
}

// renewal is how a tunnel follows the server; nil when it must not.
func (a *authority) renewal(sum string) *tunnel.Renewal {
	if a.o.PinAlways {
		return nil
	}
	return &tunnel.Renewal{
		Token: func() (string, error) { return a.o.Token, nil }, Checksum: sum, Pool: a.pool, Adopted: a.adopt,
	}
}

// adopt takes a proven bundle for every connection from now on, and keeps it for the next start.
func (a *authority) adopt(bundle []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sum == trust.Checksum(bundle) {
		return nil
	}
	if err := a.use(bundle); err != nil {
		return err
	}
	a.liveStatus.set(onCA, nil)
	path := filepath.Join("/", a.o.Root, adoptedFile)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = durable.WriteJSON(path, adopted{Server: a.o.Server.Host, Pin: a.o.CAChecksum, Bundle: string(bundle)}, 0o600)
	}
	a.keep(bundle)
	if err != nil {
		return fmt.Errorf("keep the server's new CA for the next start: %w", err)
	}
	return nil
}

// use makes a bundle the trust; none is the system's. The lock is held.
func (a *authority) use(bundle []byte) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12, Time: a.o.Now}
	sum := ""
	if bundle != nil {
		pool, err := a.pool(bundle)
		if err != nil {
			return err
		}
		config.RootCAs, sum = pool, trust.Checksum(bundle)
	}
	a.config, a.sum = config, sum
	return nil
}

// pool trusts a bundle, alone when verification is strict, and beside the system's otherwise.
func (a *authority) pool(bundle []byte) (*x509.CertPool, error) {
	roots, err := trust.Pool(bundle)
	if err != nil || a.o.StrictVerify {
		return roots, err
	}
	system, err := x509.SystemCertPool()
	if err != nil {
		return roots, nil // a host without one has the bundle
	}
	system.AppendCertsFromPEM(bundle)
	return system, nil
}

// learn finds out whom to trust at a start: what was adopted, what is pinned, or the
// system (nil).
func (a *authority) learn(ctx context.Context) ([]byte, error) {
	if bundle := a.adopted(); bundle != nil {
		return bundle, nil
	}
	if a.o.CAChecksum == "" {
		return nil, nil
	}
	if b, err := durable.ReadFile(filepath.Join("/", a.o.Root, caFile), maxCA); err == nil && a.pinned(b) != nil {
		return b, nil
	}
	bundle, err := a.fetch(ctx)
	if err != nil {
		return nil, err
	}
	a.keep(bundle)
	return bundle, nil
}

// adopted is what a former life adopted from this server under this pin, nil when it did not.
func (a *authority) adopted() []byte {
	if a.o.PinAlways {
		return nil
	}
	b, err := durable.ReadFile(filepath.Join("/", a.o.Root, adoptedFile), 2*maxCA)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var kept adopted
	if err == nil {
		err = json.Unmarshal(b, &kept)
	}
	if err == nil && (kept.Server != a.o.Server.Host || kept.Pin != a.o.CAChecksum) {
		return nil
	}
	if err == nil {
		_, err = trust.Pool([]byte(kept.Bundle))
	}
	if err != nil {
		a.log.Warn("the CA that was adopted cannot be read; the pinned one counts again", "file", adoptedFile, "error", err)
		return nil
	}
	return []byte(kept.Bundle)
}

// keep writes the CA down where people and Docker look for it. It is fetched again when it is not there.
func (a *authority) keep(bundle []byte) {
	for _, file := range []string{caFile, filepath.Join(dockerCerts, a.o.Server.Host, "ca.crt")} {
		path := filepath.Join("/", a.o.Root, file)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = durable.WriteFile(path, bundle, 0o600)
		}
		if err != nil {
			a.log.Warn("the server's CA cannot be kept", "file", path, "error", err)
		}
	}
}

// fetch gets the bundle from any server that answers and compares it with the pin.
func (a *authority) fetch(ctx context.Context) ([]byte, error) {
	source := a.o.Server.String() + "/v3/settings/cacerts"
	text, err := a.setting(ctx, source)
	if err != nil {
		plain, plainErr := a.get(ctx, a.o.Server.String()+"/cacerts")
		if plainErr != nil {
			return nil, fmt.Errorf("fetch the server's CA: %w", err)
		}
		source, text = a.o.Server.String()+"/cacerts", plain
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, fmt.Errorf("%s is empty, but --ca-checksum was given: the server has a publicly trusted certificate; leave --ca-checksum out", source)
	}
	if _, err := trust.Pool(text); err != nil {
		return nil, fmt.Errorf("ERROR: Value from %s does not look like an x509 certificate (%w)", source, err)
	}
	a.log.Info(fmt.Sprintf("INFO: Value from %s is an x509 certificate", source))
	bundle := a.pinned(text)
	if bundle == nil {
		return nil, fmt.Errorf("ERROR: Configured cacerts checksum (%s) does not match given --ca-checksum (%s): another server may be answering, or the server has another CA now; take the command again from the server", trust.Checksum(text), a.o.CAChecksum)
	}
	return bundle, nil
}

// pinned is the form of a bundle that has the pinned checksum, nil when none has: servers
// and the two clients of the original differ in the white space at the end.
func (a *authority) pinned(text []byte) []byte {
	for _, form := range []string{strings.TrimSpace(string(text)) + "\n", string(text), string(text) + "\n"} {
		if digest(form) == a.o.CAChecksum {
			return []byte(form)
		}
	}
	return nil
}

func (a *authority) setting(ctx context.Context, address string) ([]byte, error) {
	b, err := a.get(ctx, address)
	if err != nil {
		return nil, err
	}
	var s struct {
		Value *string `json:"value"`
	}
	if err := json.Unmarshal(b, &s); err != nil || s.Value == nil {
		return nil, fmt.Errorf("%s answers with something that is not a setting; is it the management server?", address)
	}
	return []byte(*s.Value), nil
}

func (a *authority) get(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	answer, err := a.o.unverified().Do(q)
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
