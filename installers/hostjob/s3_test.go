package hostjob_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/installers/hostjob"
)

// TestASnapshotThatBelongsInS3 has to be there too, or the job has failed and says why.
func TestASnapshotThatBelongsInS3(t *testing.T) {
	for _, c := range []struct{ name, listed, journal, want string }{
		{"there", "on-demand-a-1  s3://harbour/a/on-demand-a-1 4128 2026-01-02T12:00:00Z", "", ""},
		{"not there", "on-demand-a-1  file:///d/on-demand-a-1 4128 2026-01-02T12:00:00Z", `time="x" level=warning msg="Unable to initialize S3 client: no secret"`, "S3 does not have it: Unable to initialize S3 client: no secret"},
		{"another there", "on-demand-a-12 s3://harbour/a/on-demand-a-12 4128 2026-01-02T12:00:00Z", "", "S3 does not have it: journalctl -u k3s says why"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			whole := h.write("whole", database(""))
			h.program("k3s", `case "$2" in
save) cp '`+whole+"' '"+h.DataDir+`/server/db/snapshots/on-demand-a-1' ;;
ls) printf 'Name Location Size Created\n%s\n' '`+c.listed+`' ;;
esac`)
			h.program("journalctl", "printf '%s\\n' '"+c.journal+"'")
			in := h.Save("op-1-save-1", "on-demand")
			i := slices.Index(in.Args, h.Distribution.ConfigFile())
			in.Args[i] = h.write("config", "{\n  \"etcd-s3\": true,\n  \"etcd-s3-config-secret\": \"drover-etcd-s3\"\n}\n")
			out, err := h.run(in, 0)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(out, c.want)) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestFetch: what is wrong on the way is said in a sentence, nothing half is left, and the link is in no argument.
func TestFetch(t *testing.T) {
	good := database("/bootstrap/0123456789ab")
	answer := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			w.WriteHeader(status)
			fmt.Fprint(w, text)
		}
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		change  func(*hostjob.Source)
		want    string
	}{
		{"whole", answer(200, good), nil, ""},
		{"any certificate", answer(200, good), func(s *hostjob.Source) { s.CA, s.Unverified = "", true }, ""},
		{"a certificate of others", answer(200, good), func(s *hostjob.Source) { s.CA = "" }, "the certificate of the endpoint is not trusted"},
		{"refused", answer(403, "<Error><Code>AccessDenied</Code></Error>"), nil, "the endpoint answers 403 AccessDenied"},
		{"gone", answer(404, "<Error><Code>NoSuchKey</Code></Error>"), nil, "404 NoSuchKey; it is not there any more"},
		{"cut", answer(200, good[:2000]), nil, "2000 bytes came where the bucket lists 4128"},
		{"too much", answer(200, good+good), nil, "more bytes than the bucket lists"},
		{"ended", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4128")
			fmt.Fprint(w, good[:100])
			panic(http.ErrAbortHandler)
		}, nil, "could not be fetched from S3"},
		{"no room", answer(200, good), func(s *hostjob.Source) { s.Size = 1 << 50 }, "KiB free"},
		{"from the server", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer sesame" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			answer(200, good)(w, r)
		}, func(s *hostjob.Source) { s.Opens, s.SHA256 = "sesame", sum(good) }, ""},
		{"refused by the server", answer(404, "on machine m1: the file is gone\n"), func(s *hostjob.Source) { s.Opens = "sesame" },
			"could not be fetched from the server: it answers 404: on machine m1: the file is gone"},
		{"cut by the server", answer(200, good[:2000]), func(s *hostjob.Source) { s.Opens = "sesame" }, "2000 bytes came where the host that has it says 4128"},
		{"another one by the server", answer(200, strings.Repeat("x", len(good))), func(s *hostjob.Source) { s.Opens, s.SHA256 = "sesame", sum(good) },
			"another SHA-256 than the snapshot had when it was taken"},
		{"a server that is not trusted", answer(200, good), func(s *hostjob.Source) { s.Opens, s.CA = "sesame", "" }, "this host has to trust it as its agent does"},
		{"nobody there", nil, func(s *hostjob.Source) { s.Link = "https://127.0.0.1:1/a" }, "nothing listens there"},
		{"without TLS", nil, func(s *hostjob.Source) { s.Link = strings.Replace(s.Link, "https", "http", 1) }, "could not be fetched from S3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHost(t)
			server := httptest.NewTLSServer(c.handler)
			t.Cleanup(server.Close)
			from := hostjob.Source{Link: server.URL + "/a?X-Amz-Signature=hush", Size: int64(len(good)), CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))}
			if c.change != nil {
				c.change(&from)
			}
			old := h.write("data/drover/fetched/op-0/one", "old")
			in := h.Fetch("op-1-fetch-1", "op-1", "one", from)
			if args := strings.Join(in.Args, " "); strings.Contains(args, "hush") || strings.Contains(args, "sesame") {
				t.Error("the link or its secret is an argument")
			}
			for _, env := range in.Env {
				t.Setenv(strings.SplitN(env, "=", 2)[0], strings.SplitN(env, "=", 2)[1])
			}
			out, err := h.run(in, 0)
			if strings.Contains(out, "hush") || strings.Contains(out, "sesame") {
				t.Errorf("it prints the link: %s", out)
			}
			text, missing := os.ReadFile(h.Fetched("op-1", "one"))
			if c.want == "" {
				if err != nil || string(text) != good {
					t.Errorf("%v: %s; fetched are %d bytes", err, out, len(text))
				}
				if _, err := os.Stat(old); !os.IsNotExist(err) {
					t.Errorf("what was fetched before is still there: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(out, c.want) || missing == nil {
				t.Errorf("%v: %s; %d bytes are there", err, out, len(text))
			}
		})
	}
}

// sum is the SHA-256 of a text in hex.
func sum(text string) string {
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:])
}
