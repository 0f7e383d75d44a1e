package addons

// users.go is about what users bring: text in the config, and what it names.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/drover-project/drover/rke1/config"
)

// Bounds of addons_include.
const (
	maxIncludes = 100
	fetchLimit  = time.Minute
)

// Sources are where addons_include may be read from.
type Sources struct {
	// Files reads paths too. They are those of the machine that this runs on: a server, whose
	// files are none of the business of who writes the config, leaves it false.
	Files bool
	// Transport fetches addresses; nil takes http.DefaultTransport.
	Transport http.RoundTripper
}

// Users is what users bring, with an empty text for what they do not. Where the error is not nil
// the add-ons are those that could be read. Errors name the field of cluster.yml and repeat
// nothing of the texts.
func Users(ctx context.Context, c *config.Cluster, from Sources) ([]Addon, error) {
	var all []Addon
	var failed []error
	if err := check("addons", []byte(c.Addons)); err != nil {
		failed = append(failed, err)
	} else {
		all = append(all, Addon{Name: User, Text: c.Addons, Users: true})
	}
	text, err := from.includes(ctx, c.AddonsInclude)
	if err != nil {
		failed = append(failed, err)
	} else {
		all = append(all, Addon{Name: Includes, Text: text, Users: true})
	}
	return all, errors.Join(failed...)
}

// includes are the texts one after the other.
func (s Sources) includes(ctx context.Context, list []string) (string, error) {
	if len(list) > maxIncludes {
		return "", fmt.Errorf("addons_include: has %d entries, at most %d are read", len(list), maxIncludes)
	}
	var all strings.Builder
	for i, from := range list {
		field := fmt.Sprintf("addons_include[%d]", i)
		text, err := s.read(ctx, from)
		if err != nil {
			return "", fmt.Errorf("%s: %w", field, err)
		}
		if err := check(field, text); err != nil {
			return "", err
		}
		if !strings.HasPrefix(string(text), "---") {
			all.WriteString("---\n")
		}
		all.Write(text)
		if len(text) > 0 && text[len(text)-1] != '\n' {
			all.WriteByte('\n')
		}
	}
	if all.Len() > maxText {
		return "", fmt.Errorf("addons_include: all texts together have %d bytes, more than the %d that a ConfigMap holds", all.Len(), maxText)
	}
	return all.String(), nil
}

func (s Sources) read(ctx context.Context, from string) ([]byte, error) {
	if strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://") {
		return s.fetch(ctx, from)
	}
	if !s.Files {
		return nil, fmt.Errorf("%.100q is not an address that begins with https://; paths are read by the command line alone", from)
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if is, err := f.Stat(); err != nil || !is.Mode().IsRegular() {
		return nil, fmt.Errorf("%.100q is not a file", from)
	}
	return bounded(f)
}

func (s Sources) fetch(ctx context.Context, address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, errors.New("it is not an address such as https://example.com/addon.yaml")
	}
	where := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String() // the rest may be a password
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("%s is not an address", where)
	}
	answer, err := (&http.Client{Transport: s.Transport, CheckRedirect: stayEncrypted}).Do(r)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok { // it repeats the whole address
			err = wrapped.Err
		}
		return nil, fmt.Errorf("fetch %s: %w", where, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch %s: the server answers %s", where, answer.Status)
	}
	text, err := bounded(answer.Body)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", where, err)
	}
	return text, nil
}

// stayEncrypted follows redirects as clients do, but not from https to http.
func stayEncrypted(r *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return errors.New("it redirects ten times")
	}
	if via[0].URL.Scheme == "https" && r.URL.Scheme != "https" {
		return errors.New("it redirects to an address without encryption")
	}
	return nil
}

func bounded(from io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxText+1))
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("it has more than the %d bytes that a ConfigMap holds", maxText)
	}
	return text, err
}
