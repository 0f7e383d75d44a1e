package bundle

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

func TestScrub(t *testing.T) {
	hash := strings.Repeat("ab12", 16)
	for _, c := range []struct{ text, want string }{
		{"nothing to hide here", "nothing to hide here"},
		{"password=hunter2 next", "password=[left-out] next"},
		{`"dbPassword": "hunter2",`, `"dbPassword": "[left-out]",`},
		{"the password is hunter2", "the password is [left-out]"},
		{"Authorization: Bearer abcdefgh", "Authorization: [left-out]"},
		{"curl -H bearer abcdefgh", "curl -H bearer [left-out]"},
		{"https://user:pw@host/x?token=abc&y=1", "https://[left-out]@host/x?token=[left-out]&y=[left-out]"},
		{"k3s agent --token abcdef --node-ip 1.2.3.4", "k3s agent --token [left-out] --node-ip 1.2.3.4"},
		{"K10" + hash + "::server:abc end", "[left-out] end"},
		{"token-abcde:" + strings.Repeat("x1", 20), "token-abcde:[left-out]"},
		{"-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----\nrest", "[left-out]\nrest"},
		{"-----BEGIN RSA PRIVATE KEY-----\ncut off", "[left-out]"},
		{"eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", "[left-out]"},
		{"AKIAABCDEFGHIJKLMNOP", "[left-out]"},
		{"ghp_abcdefghijklmnopqrstuv", "[left-out]"},
		{"AGE-SECRET-KEY-1ABCDEF", "[left-out]"},
		{"$2a$10$abcdefghijk", "[left-out]"},
		{"Nov 1 host agent[7]: install[stdout]: my secret\nnext", "Nov 1 host agent[7]: install[stdout]: [left-out]\nnext"},
		{`instruction "install" of plan daca7e16da51 failed on n1 (192.0.2.10): could not log in as hunter2`, `instruction "install" of plan daca7e16da51 failed on n1 (192.0.2.10): [left-out]`},
		{"plan " + hash + " of /var/lib/rancher/rke2/agent/containerd/io.containerd.snapshotter.v1/x", "plan " + hash + " of /var/lib/rancher/rke2/agent/containerd/io.containerd.snapshotter.v1/x"},
		{strings.Repeat("Ab1", 20), "[left-out]"},
	} {
		got, found := Scrub(c.text)
		if got != c.want {
			t.Errorf("%q\n  becomes %q\n  want    %q", c.text, got, c.want)
		}
		if (len(found) > 0) != (c.text != c.want) {
			t.Errorf("%q: counted %v", c.text, found)
		}
		if again, _ := Scrub(got); again != got {
			t.Errorf("%q becomes %q when it is scrubbed again", got, again)
		}
	}
}

func TestFields(t *testing.T) {
	allowed := Allow("name state roles{etcd worker} machines{name} silent{*} list")
	var value any
	if err := json.Unmarshal([]byte(`{"name":"n","password":"p","state":{"hidden":1},"roles":{"etcd":true,"key":"k"},"machines":[{"name":"a","env":"e"},{"name":"b"}],
		"silent":{"https://a":"away"},"list":["a",1,true],"hunter2 as a key":1}`), &value); err != nil {
		t.Fatal(err)
	}
	left := map[string]int{}
	got, err := json.Marshal(allowed.keep(value, "", left))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"list":["a",1,true],"machines":[{"name":"a"},{"name":"b"}],"name":"n","roles":{"etcd":true},"silent":{"https://a":"away"},"state":null}`
	if string(got) != want {
		t.Errorf("kept %s, want %s", got, want)
	}
	if diff := cmp.Diff(map[string]int{"password": 1, "state (an object)": 1, "roles.key": 1, "machines.env": 1, "?": 1}, left); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
}

// read reads a bundle.
func read(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	reader, err := zstd.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	files := map[string]string{}
	for r := tar.NewReader(reader); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(content)
	}
}

func TestBundle(t *testing.T) {
	b := New("Cluster <harbour>", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	b.Text("a.log", "A log & more", "line\npassword=hunter2\n</pre><script>alert(1)</script>\n\xff")
	b.Text("long.log", "A long log", strings.Repeat("first\n", maxFile/6)+"last\n")
	b.Value("v.json", "A value", map[string]any{"name": "n", "secret": "hunter2"}, Allow("name"))
	b.Fail("away.json", errors.New("the server said token=hunter2 is away"))
	var packed bytes.Buffer
	if err := b.Write(&packed); err != nil {
		t.Fatal(err)
	}
	files := read(t, packed.Bytes())
	for name, text := range files {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "<script>") && name != "a.log" {
			t.Errorf("%s has what it may not have", name)
		}
	}
	for name, has := range map[string]string{
		"index.html": "A log &amp; more", "a.log": "password=[left-out]", "long.log": "last\n", "v.json": `"name": "n"`, "MANIFEST.json": `"secret": 1`,
	} {
		if !strings.Contains(files[name], has) {
			t.Errorf("%s lacks %q", name, has)
		}
	}
	if len(files["long.log"]) > maxFile || !strings.Contains(files["MANIFEST.json"], "the first ") || !strings.Contains(files["MANIFEST.json"], "away.json") {
		t.Errorf("the manifest does not say what is missing: %s", files["MANIFEST.json"])
	}
}

// TestBundleOfManyMachines bounds the size: a fleet of 5,000 machines fits, and what would not is said to be missing.
func TestBundleOfManyMachines(t *testing.T) {
	type machine struct{ Name, State, Cause, Env string }
	var all []machine
	for i := range 5000 {
		all = append(all, machine{fmt.Sprint("custom-", i), "Waiting for probes", strings.Repeat("the probe kubelet does not answer; ", 8), "hidden"})
	}
	b := New("The server", time.Now())
	b.Value("machines.json", "Machines", all, Allow("Name State Cause"))
	for i := range all {
		all[i].Cause = strings.Repeat(all[i].Cause, 6)
	}
	b.Value("large.json", "Machines of which much is said", all, Allow("Name State Cause"))
	for i := range 30 {
		b.Text(fmt.Sprint("log-", i), "A log", strings.Repeat("words of a log\n", maxFile/15))
	}
	if _, missing := b.Missing()["machines.json"]; missing {
		t.Errorf("5,000 machines do not fit: %v", b.Missing())
	}
	if n := len(b.Missing()); n == 0 {
		t.Error("all of it fits into a bundle that is bounded")
	}
	var packed bytes.Buffer
	if err := b.Write(&packed); err != nil {
		t.Fatal(err)
	}
	files := read(t, packed.Bytes())
	var fit []machine
	if err := json.Unmarshal([]byte(files["large.json"]), &fit); err != nil || len(fit) < 1000 || len(fit) == len(all) || fit[len(fit)-1].Name != all[len(fit)-1].Name || len(files["large.json"]) > maxFile {
		t.Errorf("of the list that is too large there are %d machines in %d bytes: %v", len(fit), len(files["large.json"]), err)
	}
	if says := fmt.Sprintf(`"items behind those that fit into the file": %d`, len(all)-len(fit)); !strings.Contains(files["MANIFEST.json"], says) {
		t.Errorf("the manifest does not say %s", says)
	}
	path := filepath.Join(t.TempDir(), "b.tar.zst")
	if err := Save(path, b); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() > maxAll {
		t.Errorf("%v %v", info, err)
	}
	if err := Save(path, b); err == nil {
		t.Error("a file that is there was replaced")
	}
	if err := Save(filepath.Join(t.TempDir(), "no", "where"), b); err == nil {
		t.Error("a bundle was written nowhere")
	}
}

func FuzzScrub(f *testing.F) {
	f.Add("password=hunter2 https://a:b@c/?x=y K10abc::x")
	f.Fuzz(func(t *testing.T, text string) {
		once, _ := Scrub(text)
		if strings.Contains(text, "PRIVATE KEY-----") && strings.HasPrefix(text, "-----BEGIN PRIVATE KEY-----") && strings.Contains(once, "-----BEGIN PRIVATE KEY-----") {
			t.Errorf("%q keeps a key", text)
		}
		_ = Allow("name").keep(map[string]any{text: text, "name": text}, "", map[string]int{})
	})
}
