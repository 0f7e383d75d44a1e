package cli

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// etcdSnapshot is one of an etcd that nothing was written to.
func etcdSnapshot(t *testing.T) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		keys, err := tx.CreateBucket([]byte("key"))
		if err == nil {
			err = keys.Put([]byte{0, 0, 0, 0, 0, 0, 0, 42, '_', 0, 0, 0, 0, 0, 0, 0, 0}, []byte("x"))
		}
		if err == nil {
			_, err = tx.CreateBucket([]byte("meta"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	return append(text, sum[:]...)
}

// packed is an archive of one file.
func packed(t *testing.T, name string, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	member, err := w.Create(name)
	if err == nil {
		_, err = member.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestSnapshotsDownload(t *testing.T) {
	good := etcdSnapshot(t)
	flipped := bytes.Clone(good)
	flipped[5000] ^= 1
	served := map[string][]byte{
		"one": good, "damaged": flipped, "cut": good[:len(good)-9], "zipped.zip": packed(t, "zipped", good), "renamed.zip": packed(t, "zipped", good),
		"rotten.zip": packed(t, "rotten", flipped), "text.zip": []byte("text"),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1-drover/clusters", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"data":[{"id":"c-m-1","name":"harbour","namespace":"fleet-default"}]}`)
	})
	mux.HandleFunc("GET /v1-drover/machines", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"data":[{"id":"fleet-default/m1","name":"m1","nodeName":"pier-1"}]}`)
	})
	from := ""
	mux.HandleFunc("GET /v1-drover/clusters/fleet-default/harbour/snapshots/{snapshot}/file", func(w http.ResponseWriter, r *http.Request) {
		content, there := served[r.PathValue("snapshot")]
		if from = r.URL.Query().Get("machine"); !there {
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"status":404,"message":"cluster harbour has no snapshot of that name"}`)
			return
		}
		w.Header().Set("ETag", `"m1.t"`)
		w.Header().Set("X-Drover-Machine", "m1")
		w.Header().Set("X-Drover-Created", "2026-01-02T11:00:00Z")
		w.Header().Set("X-Drover-Kubernetes-Version", "v1.34.4+k3s1")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	})
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (code int, out, errs string) {
		var o, e strings.Builder
		environ := func(name string) string {
			return map[string]string{"DROVER_SERVER": server.URL, "DROVER_TOKEN": "t", "DROVER_CA_FILE": ca, "HOME": t.TempDir()}[name]
		}
		code = Main(t.Context(), append([]string{"snapshots", "download"}, args...), Streams{In: strings.NewReader(""), Out: &o, Err: &e}, environ, nil)
		return code, o.String(), e.String()
	}
	for _, tc := range []struct {
		name, snapshot string
		code           int
		says           string
	}{
		{"plain", "one", 0, "etcd at revision 42"},
		{"compressed", "zipped.zip", 0, "etcd at revision 42"},
		{"damaged", "damaged", 1, "it was changed since; it was removed again"},
		{"cut off", "cut", 1, "it was cut off, or is something else"},
		{"compressed and damaged", "rotten.zip", 1, "what is in the archive is not a snapshot that can be restored"},
		{"an archive of another name", "renamed.zip", 1, "the archive has no file renamed in it"},
		{"no archive", "text.zip", 1, "it is not an archive that can be opened"},
		{"no such", "none", 4, "has no snapshot of that name"},
		{"a path", "../one", 2, "is not a name of a snapshot"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			code, out, errs := run("harbour", tc.snapshot, "--to", dir)
			if code != tc.code || !strings.Contains(out+errs, tc.says) {
				t.Errorf("%d: %s%s", code, out, errs)
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if code != 0 {
				if len(entries) != 0 {
					t.Errorf("it left %v", entries)
				}
				return
			}
			text, err := os.ReadFile(filepath.Join(dir, tc.snapshot))
			info, _ := entries[0].Info()
			if err != nil || !bytes.Equal(text, served[tc.snapshot]) || len(entries) != 1 || info.Mode().Perm() != 0o600 {
				t.Errorf("%d bytes, %v, %v", len(text), info.Mode(), err)
			}
			for _, want := range []string{"snapshot " + tc.snapshot + " of cluster harbour, taken at 2026-01-02T11:00:00Z with Kubernetes v1.34.4+k3s1", "from the host of machine m1", "it holds all Secrets of the cluster"} {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q: %s", want, out)
				}
			}
		})
	}
	to := filepath.Join(t.TempDir(), "mine")
	if err := os.WriteFile(to, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := run("harbour", "one", "--to", to); code != 1 || !strings.Contains(errs, "--force replaces it") {
		t.Errorf("%d: %s", code, errs)
	}
	code, out, errs := run("harbour", "one", "--to", to, "--force", "--machine", "pier-1", "-o", "json")
	var shown downloaded
	sum := sha256.Sum256(good)
	if err := json.Unmarshal([]byte(out), &shown); err != nil || code != 0 || from != "m1" || shown.File != to || shown.Revision != 42 || shown.SHA256 != hex.EncodeToString(sum[:]) || shown.Bytes != int64(len(good)) {
		t.Errorf("%d %+v, %v: %s", code, shown, err, errs)
	}
	if info, err := os.Stat(to); err != nil || info.Mode().Perm() != 0o600 || info.Size() != int64(len(good)) {
		t.Errorf("%v, %v", info, err)
	}
	code, out, errs = run("harbour", "one", "--to", "-", "--machine", "s3")
	if code != 0 || out != string(good) || from != "s3" || !strings.Contains(errs, "it holds all Secrets of the cluster") {
		t.Errorf("%d, %d bytes: %s", code, len(out), errs)
	}
}
