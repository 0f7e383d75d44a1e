// Getting the new program: from a file or from a server, never more than it may have, and
// only if it is the one that was meant.

package selfupdate

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/drover-project/drover/plans/backoff"
)

const (
	// maxProgram bounds a program, in bytes.
	maxProgram = 256 << 20
	// fetchLimit bounds the download of one.
	fetchLimit = 10 * time.Minute
)

// download puts the program in a file beside the installed one, which only root can execute.
func (u *Updater) download(ctx context.Context, r Request, to string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	src, err := u.open(ctx, r)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := removeAll(to); err != nil { // of an update that was killed
		return err
	}
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("%w; on a host whose programs are read-only the agent is updated with the host's image", err)
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(dst, h), io.LimitReader(src, maxProgram+1))
	if err = errors.Join(err, dst.Chmod(0o755), dst.Sync(), dst.Close()); err != nil {
		return fmt.Errorf("get %s: %w", r.From, err)
	}
	if n > maxProgram {
		return fmt.Errorf("%s has more than %d MiB, so it is no agent", r.From, maxProgram>>20)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != r.Checksum {
		return fmt.Errorf("%s has the SHA-256 %s, but %s was expected; nothing was changed", r.From, sum, r.Checksum)
	}
	return nil
}

func (u *Updater) open(ctx context.Context, r Request) (io.ReadCloser, error) {
	if !strings.HasPrefix(r.From, "https://") && !strings.HasPrefix(r.From, "http://") {
		return os.Open(strings.TrimPrefix(r.From, "file://"))
	}
	if u, err := url.Parse(r.From); err != nil || u.User != nil || u.Host == "" {
		return nil, errors.New("the URL of the new agent cannot be read, or has credentials in it, which others on the host could see")
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if r.CAFile != "" {
		pem, err := os.ReadFile(r.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the authorities: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s has no certificate in PEM", r.CAFile)
		}
	}
	return u.get(ctx, &http.Client{Transport: transport, CheckRedirect: redirect}, r.From)
}

// serverStart is how long a server that takes no connection is asked again: as long as one takes to start.
const serverStart = 30 * time.Second

// get sends the request again after the Retry-After of a server with too much to do, until the context ends: all hosts of a
// fleet update at the same moment. A server that takes no connection may only be starting again.
func (u *Updater) get(ctx context.Context, client *http.Client, from string) (io.ReadCloser, error) {
	var spared backoff.Spared
	began, pause := u.Now(), backoff.Backoff{Min: time.Second, Max: 5 * time.Second, Floor: 0.5}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if errors.Is(err, syscall.ECONNREFUSED) && u.Now().Sub(began) < serverStart {
			u.Logger.Info("server takes no connection, and is asked again for the new agent", "error", err)
			if u.wait(ctx, pause.Next()) == nil {
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("get the new agent: %w", err)
		}
		if resp.StatusCode == http.StatusOK {
			return resp.Body, nil
		}
		resp.Body.Close()
		spared.NoteAnswer(resp, u.Now())
		left := spared.Left(u.Now())
		deadline, bounded := ctx.Deadline()
		switch {
		case left <= 0:
			return nil, fmt.Errorf("get %s: the server answered %s", from, resp.Status)
		case bounded && time.Until(deadline) < left:
			return nil, fmt.Errorf("get %s: the server answered %s and asks to be left alone; try again in %s", from, resp.Status, left.Round(time.Second))
		}
		u.Logger.Info("server has too much to do to give the new agent, and says when to ask again", "answer", resp.Status, "next", left.Round(time.Second))
		if err := u.wait(ctx, left); err != nil {
			return nil, fmt.Errorf("get %s: wait for the server, which answered %s: %w", from, resp.Status, err)
		}
	}
}

// redirect follows as net/http does, but not from https to http.
func redirect(r *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("it redirects ten times")
	}
	if via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
		return errors.New("it redirects to an address without encryption")
	}
	return nil
}
