// The files that a host downloads: agents, scripts, and their checksums.

package registration

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	drover "github.com/drover-project/drover"
)

// sums is the file that install.sh checks its downloads by.
const sums = "sha256sum.txt"

// scripts are the files that come with the program itself; they win over files of the same name.
func scripts() map[string][]byte {
	return map[string][]byte{
		"install.sh":                drover.InstallScript,
		"system-agent-install.sh":   drover.InstallScript,
		"system-agent-uninstall.sh": drover.UninstallScript,
	}
}

// assets are all files below /assets/.
type assets struct {
	files   fs.FS // nil: the scripts only
	scripts map[string][]byte

	mu   sync.Mutex
	seen map[string]digest // by file name
}

// digest is a checksum and the state of the file that it was taken of.
type digest struct {
	size     int64
	modified time.Time
	sum      string
}

func newAssets(files fs.FS) *assets {
	return &assets{files: files, scripts: scripts(), seen: map[string]digest{}}
}

func (g *Registration) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	content, modified, closer, err := g.assets.open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		noAsset(w, r)
		return
	case err != nil:
		g.log.Error("asset cannot be served", "name", name, "error", err)
		text(w, http.StatusInternalServerError, "the file cannot be read; the server's log says why\n")
		return
	}
	defer closer.Close()
	w.Header().Set("Content-Type", contentType(name))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, "", modified, content)
}

// Checksum is that of a file below /assets/, in hex; fs.ErrNotExist is that there is none of the name.
func (g *Registration) Checksum(name string) (string, error) { return g.assets.sum(name) }

// noAsset is a plain 404: a page in its place would be installed as the agent.
func noAsset(w http.ResponseWriter, r *http.Request) {
	text(w, http.StatusNotFound, fmt.Sprintf("there is no file %.80q here; /assets/%s lists what there is\n", path.Base(r.URL.Path), sums))
}

func contentType(name string) string {
	if strings.HasSuffix(name, ".sh") || strings.HasSuffix(name, ".txt") {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// open finds a file; its error is fs.ErrNotExist for everything that is not a plain,
// visible file at the top of the file system.
func (a *assets) open(name string) (io.ReadSeeker, time.Time, io.Closer, error) {
	nothing := io.NopCloser(nil)
	if b, ok := a.scripts[name]; ok {
		return bytes.NewReader(b), time.Time{}, nothing, nil
	}
	if name == sums {
		list, err := a.list()
		return strings.NewReader(list), time.Time{}, nothing, err
	}
	f, info, err := a.file(name)
	if err != nil {
		return nil, time.Time{}, nil, err
	}
	content, ok := f.(io.ReadSeeker)
	if !ok {
		return nil, time.Time{}, nil, errors.Join(fmt.Errorf("open asset %s: its file system cannot seek", name), f.Close())
	}
	return content, info.ModTime(), f, nil
}

func (a *assets) file(name string) (fs.File, fs.FileInfo, error) {
	if a.files == nil || !fs.ValidPath(name) || strings.HasPrefix(name, ".") || strings.Contains(name, "/") {
		return nil, nil, fs.ErrNotExist
	}
	f, err := a.files.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("open asset: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("open asset %s: %w", name, err)
	}
	return f, info, nil
}

// list is sha256sum's output over everything else that is served.
func (a *assets) list() (string, error) {
	all := map[string]string{}
	for name, b := range a.scripts {
		sum := sha256.Sum256(b)
		all[name] = hex.EncodeToString(sum[:])
	}
	var entries []fs.DirEntry
	if a.files != nil {
		var err error
		if entries, err = fs.ReadDir(a.files, "."); err != nil {
			return "", fmt.Errorf("list assets: %w", err)
		}
	}
	for _, entry := range entries {
		name := entry.Name()
		if _, own := a.scripts[name]; own || name == sums {
			continue
		}
		sum, err := a.sum(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", err
		}
		all[name] = sum
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s  %s\n", all[name], name)
	}
	return b.String(), nil
}

// sum is the checksum of a file, read again only when size or time have changed.
func (a *assets) sum(name string) (string, error) {
	f, info, err := a.file(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	a.mu.Lock()
	defer a.mu.Unlock()
	if d, ok := a.seen[name]; ok && d.size == info.Size() && d.modified.Equal(info.ModTime()) {
		return d.sum, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read asset %s: %w", name, err)
	}
	d := digest{size: info.Size(), modified: info.ModTime(), sum: hex.EncodeToString(h.Sum(nil))}
	a.seen[name] = d
	return d.sum, nil
}
