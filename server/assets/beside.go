//go:build !embedassets

package assets

import "io/fs"

// embedded is nothing in a build without the release's files.
var embedded fs.FS
