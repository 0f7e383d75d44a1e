// Answers for assets and pages, as browsers take them.

package ui

import (
	"bytes"
	"compress/gzip"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
)

// Asset is the handler of GET /dashboard/assets/{name}.
func (u *UI) Asset(c *route.Call) (route.Answer, error) {
	a, ok := u.assets[c.Param("name")]
	if !ok {
		return route.NotFound(c)
	}
	headers(c.W.Header())
	a.ServeHTTP(c.W, c.R)
	return route.Answer{}, nil
}

// assetURL is the address of an asset.
func (u *UI) assetURL(name string) string {
	return Home + "assets/" + name + "?v=" + u.assets[name].Tag
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
