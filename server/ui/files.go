// The style, the scripts and the pictures of the page: files in the binary, named in pages with their checksum, so that browsers
// keep them.

package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
)

//go:embed assets
var assetFiles embed.FS

// asset is one file.
type asset struct {
	tag           string // names what is in it
	kind          string
	plain, packed []byte
}

var assetKinds = map[string]string{"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}

// readAssets are all by their names. It returns an error where the binary has none.
func readAssets() (map[string]asset, error) {
	list, err := assetFiles.ReadDir("assets")
	if err != nil {
		return nil, fmt.Errorf("read the assets of the page: %w", err)
	}
	all := map[string]asset{}
	for _, one := range list {
		text, err := assetFiles.ReadFile("assets/" + one.Name())
		if err != nil {
			return nil, fmt.Errorf("read the assets of the page: %w", err)
		}
		sum := sha256.Sum256(text)
		all[one.Name()] = asset{kind: assetKinds[one.Name()[strings.LastIndex(one.Name(), ".")+1:]], tag: hex.EncodeToString(sum[:6]), plain: text, packed: pack(text)}
	}
	return all, nil
}

// ServeHTTP implements http.Handler. Who asks with the tag keeps the answer.
func (a asset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Del("Expires")
	h.Set("Content-Type", a.kind)
	h.Add("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == a.tag {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	text := a.plain
	if norman.AcceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		text = a.packed
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(text) // the client has gone when this fails
}

func pack(text []byte) []byte {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return text // never: the level is valid
	}
	_, _ = z.Write(text) // a bytes.Buffer takes everything
	_ = z.Close()
	return out.Bytes()
}
