//go:build embedassets

package assets

import (
	"embed"
	"io/fs"
)

//go:embed bin/*.zst
var files embed.FS

// embedded are the files that `make build` put into bin before it built the server, compressed.
var embedded, _ = fs.Sub(files, "bin")
