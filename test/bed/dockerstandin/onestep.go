// What containers with one purpose do: commands that end, and files of the host that go
// through a container which is never started.

package dockerstandin

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// File is a file of the stand-in's host.
type File struct {
	Contents string
	Mode     int64
	UID, GID int
	Changed  time.Time
}

// OnStart makes each container of a name end at once when it is started, with what run gives.
func (e *Engine) OnStart(name string, run func(Container) (code int, output string)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs[name] = run
}

// Files are the host's files by path.
func (e *Engine) Files() map[string]File {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.files)
}

// FilesLocked is Files for a function of OnStart.
func (e *Engine) FilesLocked() map[string]File { return maps.Clone(e.files) }

// SetFile puts a file on the host, or takes it away.
func (e *Engine) SetFile(name string, f *File) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f == nil {
		delete(e.files, name)
		return
	}
	e.files[name] = *f
}

// wait answers when a container that ends has ended. The client asks before it starts it, so
// the answer's head goes first.
func (e *Engine) wait(w http.ResponseWriter, c *Container) {
	starts := c.Starts
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	for (e.runs[c.Name] != nil || c.removedAtItsEnd()) && c.Starts == starts && e.find(c.ID) != nil {
		e.mu.Unlock()
		time.Sleep(time.Millisecond)
		e.mu.Lock()
	}
	_ = json.NewEncoder(w).Encode(map[string]int{"StatusCode": c.Code})
}

// removedAtItsEnd says whether Docker removes a container as soon as it has ended, which one that is made so does when it has been started.
func (c *Container) removedAtItsEnd() bool { return c.Host != nil && c.Host.AutoRemove }

// archive reads and writes files through a container's binds.
func (e *Engine) archive(w http.ResponseWriter, r *http.Request, id string, body []byte) {
	c := e.find(id)
	if c == nil {
		refuse(w, http.StatusNotFound, "No such container: "+id)
		return
	}
	dir := r.URL.Query().Get("path")
	if r.Method == http.MethodPut {
		if err := e.unpack(c, dir, body); err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
		w.WriteHeader(http.StatusOK)
		return
	}
	text, found := e.pack(c, dir)
	if inside := e.inside[c.Name+" "+dir]; len(inside) > 0 {
		text, found = one(path.Base(dir), inside[0]), true
		if len(inside) > 1 {
			e.inside[c.Name+" "+dir] = inside[1:]
		}
	}
	if !found {
		refuse(w, http.StatusNotFound, "Could not find the file "+dir+" in container "+id)
		return
	}
	stat, _ := json.Marshal(map[string]any{"name": path.Base(dir), "mode": 1 << 31})
	w.Header().Set("X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString(stat))
	_, _ = w.Write(text)
}

// SetInside is what containers of a name have written to a file of their own: the first one the first of contents, and all later ones
// the last.
func (e *Engine) SetInside(container, name string, contents ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inside[container+" "+name] = contents
}

// one is an archive of one file.
func one(name, contents string) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(contents)), Mode: 0o600})
	_, _ = io.WriteString(w, contents)
	_ = w.Close()
	return out.Bytes()
}

// onHost is where a container's path is on the host; empty for what is only in the container.
func onHost(c *Container, name string) string {
	for _, bind := range c.Host.Binds {
		host, inside, _ := strings.Cut(bind, ":")
		inside, _, _ = strings.Cut(inside, ":")
		if name == inside {
			return path.Clean(host)
		}
		if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(inside, "/")+"/"); ok {
			return path.Join(host, rest)
		}
	}
	return ""
}

func (e *Engine) unpack(c *Container, dir string, body []byte) error {
	for r := tar.NewReader(bytes.NewReader(body)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := onHost(c, path.Join(dir, h.Name))
		if h.Typeflag != tar.TypeReg || name == "" {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		e.files[name] = File{string(text), h.Mode, h.Uid, h.Gid, h.ModTime}
	}
}

func (e *Engine) pack(c *Container, dir string) (text []byte, found bool) {
	host := onHost(c, dir)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(e.files)) {
		rest, below := strings.CutPrefix(name, host+"/")
		switch {
		case name == host: // the file itself
			rest = ""
		case !below:
			continue
		}
		found = true
		f := e.files[name]
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(path.Base(dir), rest), Size: int64(len(f.Contents)), Mode: f.Mode, Uid: f.UID, Gid: f.GID, ModTime: f.Changed})
		_, _ = io.WriteString(w, f.Contents)
	}
	_ = w.Close()
	return out.Bytes(), found
}
