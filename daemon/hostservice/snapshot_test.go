package hostservice

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const usualSnapshots = "var/lib/rancher/k3s/server/db/snapshots"

// request is one of the server through the tunnel, with fields of a header.
func request(t *testing.T, s *Service, path string, header map[string]string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://drover-agent"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer, err := (&http.Client{Transport: &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}

// TestSnapshot: a whole file and nothing but regular files of the directory, whatever the server asks for.
func TestSnapshot(t *testing.T) {
	for _, tc := range []struct {
		name, ask string
		prepare   func(t *testing.T, root, dir string)
		owner     int // besides ours
		code      int
		want      string
	}{
		{"there", "one", nil, 0, 200, "data of one"},
		{"of a name that people chose", "before the upgrade+1", func(t *testing.T, _, dir string) { write(t, dir+"/before the upgrade+1", "data") }, 0, 200, "data"},
		{"not there", "two", nil, 0, 404, "/" + usualSnapshots + "/two is not there"},
		{"the directory itself", ".", nil, 0, 400, "name"},
		{"the one above", "..", nil, 0, 400, "name"},
		{"a way out", "../../token", nil, 0, 400, "name"},
		{"an absolute path", "/etc/shadow", nil, 0, 400, "name"},
		{"a hidden file", ".one", nil, 0, 400, "name"},
		{"no name", "", nil, 0, 400, "name"},
		{"a NUL", "one\x00", nil, 0, 400, "name"},
		{"not UTF-8", "one\xff", nil, 0, 400, "name"},
		{"a line end", "one\n", nil, 0, 400, "name"},
		{"a long name", strings.Repeat("x", 256), nil, 0, 400, "name"},
		{"a directory", "in", func(t *testing.T, _, dir string) { write(t, dir+"/in/one", "x") }, 0, 403, "regular file"},
		{"below a directory", "in/one", func(t *testing.T, _, dir string) { write(t, dir+"/in/one", "x") }, 0, 400, "name"},
		{"a link out", "link", func(t *testing.T, root, dir string) {
			write(t, root+"/secret", "secret")
			link(t, root+"/secret", dir+"/link")
		}, 0, 403, "symbolic link"},
		{"a link to a neighbour", "link", func(t *testing.T, _, dir string) { link(t, "one", dir+"/link") }, 0, 403, "symbolic link"},
		{"a FIFO", "pipe", func(t *testing.T, _, dir string) {
			if err := syscall.Mkfifo(dir+"/pipe", 0o600); err != nil {
				t.Fatal(err)
			}
		}, 0, 403, "regular file"},
		{"of another owner", "one", nil, 1, 403, "does not belong to root"},
		{"that others can write", "one", func(t *testing.T, _, dir string) {
			if err := os.Chmod(dir+"/one", 0o666); err != nil {
				t.Fatal(err)
			}
		}, 0, 403, "mode 0666"},
		{"too large", "huge", func(t *testing.T, _, dir string) {
			write(t, dir+"/huge", "")
			if err := os.Truncate(dir+"/huge", maxSnapshot+1); err != nil {
				t.Fatal(err)
			}
		}, 0, 403, "more than"},
		{"where the settings say", "two", func(t *testing.T, root, _ string) {
			write(t, root+"/etc/rancher/k3s/config.yaml.d/50-rancher.yaml", `{"etcd-snapshot-dir": "/srv/snapshots"}`)
			write(t, root+"/srv/snapshots/two", "elsewhere")
		}, 0, 200, "elsewhere"},
		{"in another data directory", "two", func(t *testing.T, root, _ string) {
			write(t, root+"/etc/rancher/k3s/config.yaml.d/50-rancher.yaml", `{"data-dir": "/srv/k3s"}`)
			write(t, root+"/srv/k3s/server/db/snapshots/two", "elsewhere")
		}, 0, 200, "elsewhere"},
		{"where the settings say, which are a link of the agent's", "two", func(t *testing.T, root, _ string) {
			write(t, root+"/var/lib/rancher/system-agent/etc/k3s/50-rancher.yaml", `{"etcd-snapshot-dir": "/srv/snapshots"}`)
			write(t, root+"/etc/rancher/k3s/config.yaml.d/other", "")
			link(t, "/var/lib/rancher/system-agent/etc/k3s/50-rancher.yaml", root+"/etc/rancher/k3s/config.yaml.d/50-rancher.yaml")
			write(t, root+"/srv/snapshots/two", "elsewhere")
		}, 0, 200, "elsewhere"},
		{"settings behind a second link", "one", func(t *testing.T, root, _ string) {
			write(t, root+"/etc/rancher/k3s/config.yaml.d/other", "")
			link(t, "other", root+"/etc/rancher/k3s/config.yaml.d/another")
			link(t, "another", root+"/etc/rancher/k3s/config.yaml.d/50-rancher.yaml")
		}, 0, 403, "is a symbolic link"},
		{"settings that cannot be read", "one", func(t *testing.T, root, _ string) {
			write(t, root+"/etc/rancher/k3s/config.yaml.d/50-rancher.yaml", "token: hush")
		}, 0, 403, "has to be JSON"},
		{"settings that are relative", "one", func(t *testing.T, root, _ string) {
			write(t, root+"/etc/rancher/k3s/config.yaml.d/50-rancher.yaml", `{"etcd-snapshot-dir": "snapshots"}`)
		}, 0, 403, "not an absolute path"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, usualSnapshots)
			write(t, dir+"/one", "data of one")
			if tc.prepare != nil {
				tc.prepare(t, root, dir)
			}
			s := start(t, Options{Root: root, Owner: os.Getuid() + tc.owner})
			answer, text := request(t, s, "/v1/snapshot?runtime=k3s&name="+url.QueryEscape(tc.ask), nil)
			if answer.StatusCode != tc.code || !strings.Contains(text, tc.want) || strings.Contains(text, "secret") || strings.Contains(text, "hush") {
				t.Errorf("%d %.200q, want %d and %q", answer.StatusCode, text, tc.code, tc.want)
			}
			if tc.code == 200 && text != tc.want {
				t.Errorf("%q is not the file", text)
			}
		})
	}
	for _, runtime := range []string{"", "rke", "../k3s"} {
		if code, text := ask(t, start(t, Options{Root: t.TempDir()}), "/v1/snapshot?name=one&runtime="+url.QueryEscape(runtime)); code != 400 || !strings.Contains(text, "runtime") {
			t.Errorf("runtime %q: %d %s", runtime, code, text)
		}
	}
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

// TestSnapshotContinued: the rest of a file follows what was there already, if it is the same file still.
func TestSnapshotContinued(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, usualSnapshots, "one")
	content := strings.Repeat("0123456789", 100_000)
	write(t, file, content)
	s := start(t, Options{Root: root, Owner: os.Getuid()})
	const path = "/v1/snapshot?runtime=k3s&name=one"
	whole, text := request(t, s, path, nil)
	tag := whole.Header.Get("ETag")
	if text != content || whole.ContentLength != int64(len(content)) || len(tag) < 3 {
		t.Fatalf("%d bytes of %d, tag %s", len(text), whole.ContentLength, tag)
	}
	rest, text := request(t, s, path, map[string]string{"Range": "bytes=999990-", "If-Range": tag})
	if rest.StatusCode != http.StatusPartialContent || text != "0123456789" || rest.Header.Get("Content-Range") != "bytes 999990-999999/1000000" {
		t.Errorf("%s %s %q", rest.Status, rest.Header.Get("Content-Range"), text)
	}
	if over, _ := request(t, s, path, map[string]string{"Range": "bytes=1000000-", "If-Range": tag}); over.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("behind its end: %s", over.Status)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.Repeat("abcdefghij", 100_000))
	other, text := request(t, s, path, map[string]string{"Range": "bytes=999990-", "If-Range": tag})
	if other.StatusCode != http.StatusOK || !strings.HasPrefix(text, "abcdefghij") || len(text) != len(content) {
		t.Errorf("another file of the name: %s, %d bytes", other.Status, len(text))
	}
}

// TestSnapshotsAtOnce: who leaves in the middle makes room for others.
func TestSnapshotsAtOnce(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, usualSnapshots, "one")
	write(t, file, "")
	if err := os.Truncate(file, 1<<30); err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{Root: root, Owner: os.Getuid()})
	const path = "/v1/snapshot?runtime=k3s&name=one"
	client := http.Client{Transport: &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}}
	var open []*http.Response
	for range maxSnapshots {
		answer, err := client.Get("http://" + Address + path)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 1000)
		if _, err := io.ReadFull(answer.Body, first); err != nil || !bytes.Equal(first, make([]byte, 1000)) {
			t.Fatal(err)
		}
		open = append(open, answer)
	}
	if code, text := ask(t, s, path); code != http.StatusTooManyRequests || !strings.Contains(text, "2 snapshots are sent already") {
		t.Errorf("%d %s", code, text)
	}
	for _, answer := range open {
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	for range maxSnapshots { // all places are free again once it has noticed
		s.sending <- struct{}{}
	}
}
