// Style, script and pictures: files in the binary, named in pages with their checksum, so that browsers keep them.

package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
)

type asset struct {
	kind, tag     string
	plain, packed []byte
}

var kinds = map[string]string{"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}

func readAssets() (map[string]asset, error) {
	list, err := files.ReadDir("assets")
	if err != nil {
		return nil, fmt.Errorf("read the assets of the page: %w", err)
	}
	all := map[string]asset{}
	for _, one := range list {
		text, err := files.ReadFile("assets/" + one.Name())
		if err != nil {
			return nil, fmt.Errorf("read the assets of the page: %w", err)
		}
		sum := sha256.Sum256(text)
		all[one.Name()] = asset{
			kind: kinds[one.Name()[strings.LastIndex(one.Name(), ".")+1:]], tag: hex.EncodeToString(sum[:6]), plain: text, packed: pack(text),
		}
	}
	return all, nil
}

// Asset is the handler of GET /dashboard/assets/{name}.
func (u *UI) Asset(c *route.Call) (route.Answer, error) {
	a, ok := u.assets[c.Param("name")]
	if !ok {
		return route.NotFound(c)
	}
	h := c.W.Header()
	headers(h)
	h.Del("Expires")
	h.Set("Content-Type", a.kind)
	h.Add("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if c.Query().Get("v") == a.tag {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	text := a.plain
	if norman.AcceptsGzip(c.R) {
		h.Set("Content-Encoding", "gzip")
		text = a.packed
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	c.W.WriteHeader(http.StatusOK)
	_, _ = c.W.Write(text) // the client has gone when this fails
	return route.Answer{}, nil
}

// assetURL is the address of an asset.
func (u *UI) assetURL(name string) string {
	return Home + "assets/" + name + "?v=" + u.assets[name].tag
}

// compressFrom is the size from which a page is compressed, in bytes.
const compressFrom = 1024

// compressed is a page as the client takes it.
func (u *UI) compressed(c *route.Call, text []byte) []byte {
	if len(text) < compressFrom || !norman.AcceptsGzip(c.R) {
		return text
	}
	c.W.Header().Set("Content-Encoding", "gzip")
	z, ok := u.packers.Get().(*gzip.Writer)
	if !ok {
		z, _ = gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	}
	defer u.packers.Put(z)
	var out bytes.Buffer
	z.Reset(&out)
	_, _ = z.Write(text) // a bytes.Buffer takes everything
	_ = z.Close()
	return out.Bytes()
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
