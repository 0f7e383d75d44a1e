// Snapshots of etcd that the distribution on a host has taken, as files. A snapshot that is on its host alone is lost with it;
// the server asks for one when a person wants it elsewhere. Which directory it is read from the host says, not the server.

package hostservice

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/drover-project/drover/plans"
)

const (
	// maxSnapshot bounds a file that is sent, in bytes: etcd advises against databases of more than 8 GiB.
	maxSnapshot = 16 << 30
	// maxSnapshots is how many are sent at once: each reads the disk that etcd writes to.
	maxSnapshots = 2
)

// snapshot is GET /v1/snapshot?runtime=k3s&name=NAME: a file of the directory where the distribution keeps its snapshots. Its
// ETag is that of the file as it is; Range and If-Range continue what was cut off.
func (s *Service) snapshot(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name := q.Get("name")
	if _, ok := runtimes[q.Get("runtime")]; !ok {
		http.Error(w, "runtime has to be k3s or rke2", http.StatusBadRequest)
		return
	}
	if !snapshotName(name) {
		http.Error(w, "name has to be that of a file in the directory of snapshots", http.StatusBadRequest)
		return
	}
	select {
	case s.sending <- struct{}{}:
		defer func() { <-s.sending }()
	default:
		http.Error(w, fmt.Sprintf("%d snapshots are sent already; ask again when one has ended", maxSnapshots), http.StatusTooManyRequests)
		return
	}
	refused := func(err error) {
		s.o.Logger.Warn("snapshot is not handed out", "error", err)
		http.Error(w, err.Error(), http.StatusForbidden)
	}
	dir, err := s.snapshotDir(q.Get("runtime"))
	if err != nil {
		refused(err)
		return
	}
	at := path.Join(dir, name)
	f, info, err := s.open(at, maxSnapshot)
	if errors.Is(err, fs.ErrNotExist) {
		http.Error(w, at+" is not there", http.StatusNotFound)
		return
	}
	if err != nil {
		refused(err)
		return
	}
	defer f.Close()
	s.o.Logger.Info("snapshot is sent to the server", "path", at, "range", r.Header.Get("Range"))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", tag(info))
	http.ServeContent(patiently(w), r, "", info.ModTime(), f)
}

// snapshotName says whether a name is that of a file and leads nowhere else.
func snapshotName(name string) bool {
	return name != "" && len(name) <= 255 && name[0] != '.' && !strings.ContainsFunc(name, func(r rune) bool {
		return r == '/' || !plans.Safe(r)
	})
}

// tag changes whenever a file does, or another one gets its name.
func tag(info fs.FileInfo) string {
	inode := uint64(0)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = stat.Ino
	}
	return fmt.Sprintf(`"%x-%x-%x"`, info.Size(), info.ModTime().UnixNano(), inode)
}

// snapshotDir is where the distribution keeps snapshots, by its settings on this host; servers write them as JSON, which is YAML.
// Source: k3s-io/k3s pkg/etcd, snapshotDir, and docs of etcd-snapshot-dir.
func (s *Service) snapshotDir(runtime string) (string, error) {
	file := "/etc/rancher/" + runtime + "/config.yaml.d/50-rancher.yaml"
	var settings struct {
		DataDir     string `json:"data-dir"`
		SnapshotDir string `json:"etcd-snapshot-dir"`
	}
	at, err := s.linked(file)
	if err != nil {
		return "", err
	}
	text, err := s.read(at)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err == nil && json.Unmarshal(text, &settings) != nil {
		return "", fmt.Errorf("%s has to be JSON, as a server writes it; it says where snapshots are", file)
	}
	data := cmp.Or(settings.DataDir, "/var/lib/rancher/"+runtime)
	dir := settings.SnapshotDir
	if dir == "" {
		dir = path.Join(data, "server/db/snapshots")
	}
	if !path.IsAbs(dir) {
		return "", fmt.Errorf("the directory of snapshots in %s is not an absolute path", file)
	}
	return path.Clean(dir), nil
}

// linked is where the settings of a distribution really are: the agent keeps them in its own directory, with a link in the
// distribution's. One link is followed, and only one that root has made.
func (s *Service) linked(file string) (string, error) {
	info, err := os.Lstat(filepath.Join(s.o.Root, file))
	if err != nil || info.Mode().Type() != fs.ModeSymlink {
		return file, nil // reading it says what is wrong with it
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != s.o.Owner {
		return "", fmt.Errorf("%s is a symbolic link that does not belong to root", file)
	}
	target, err := os.Readlink(filepath.Join(s.o.Root, file))
	if err != nil {
		return "", fmt.Errorf("%s cannot be read", file)
	}
	if !path.IsAbs(target) {
		target = path.Join(path.Dir(file), target)
	}
	return path.Clean(target), nil
}

// patient gives the server time for each piece of what is sent, instead of a limit for the whole.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

func patiently(w http.ResponseWriter) patient {
	p := patient{w, http.NewResponseController(w)}
	_ = p.control.SetReadDeadline(time.Time{}) // a connection without deadlines has none to lift
	return p
}

func (p patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(takeLimit)) // as above
	return p.ResponseWriter.Write(b)
}
