// Every patch level, for clusters that run one: a file of its own, which is read when a version is asked for that the
// embedded data do not offer.

package versions

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"io"
	"iter"
	"maps"
	"slices"
)

// all has images, flags, releases of rke and versions of Docker of all versions from v1.10.11 on in the data of rke v1.8.6, the last
// release: older ones need a helper image that containers of today do not start with. Made by
//
//	go test ./rke1/versions -run TestAll -kdm $(go env GOMODCACHE)/github.com/rancher/rke@v1.8.6/data/data.json
//
//go:embed all.json.gz
var all []byte

// unpack reads the file above; a test shows that it can be read.
func unpack() document {
	var doc document
	z, err := gzip.NewReader(bytes.NewReader(all))
	if err != nil {
		return doc
	}
	text, err := io.ReadAll(io.LimitReader(z, maxDocument))
	if err != nil || json.Unmarshal(text, &doc) != nil {
		return document{}
	}
	return doc
}

// All is every version that a cluster can be deployed with, newest first: those of List, and of the built-in data all
// patch levels that clusters may be running.
func (d *Data) All() []string {
	if d.rest == nil {
		return d.List()
	}
	list := slices.Concat(d.list, slices.Collect(maps.Keys(d.rest().Images)))
	newestFirst(list)
	return slices.Compact(list)
}

// documents are those to look a version up in, the first one first.
func (d *Data) documents(version string) iter.Seq[document] {
	return func(yield func(document) bool) {
		_, offered := d.doc.Images[version]
		if offered && !yield(d.doc) || d.rest != nil && !yield(d.rest()) {
			return
		}
		if !offered {
			yield(d.doc)
		}
	}
}
