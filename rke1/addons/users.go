package addons

// users.go is about what users bring: text in the config, and what it names.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/fetch"
	"github.com/drover-project/drover/rke1/config"
)

// Bounds of addons_include.
const (
	maxIncludes = 100
	fetchLimit  = time.Minute
)

var limit = fetch.Limit{Bytes: maxText, Over: fmt.Sprintf("it has more than the %d bytes that a ConfigMap holds", maxText)}

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
	if fetch.IsAddress(from) {
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
	return limit.Read(f)
}

func (s Sources) fetch(ctx context.Context, address string) ([]byte, error) {
	answer, err := fetch.Get(ctx, fetch.Request{Address: address, Limit: limit, Within: fetchLimit, Transport: s.Transport})
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", fetch.Shown(address), err)
	}
	return answer.Text, nil
}
