package dropcap_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/bed/engine/dropcap"
)

func TestTarget(t *testing.T) {
	const workDir = "/run/shim"
	tests := []struct {
		name string
		args string
		path string
		kind dropcap.Kind
	}{
		{
			"create as the shim calls it",
			"--root /run/docker/runtime-runc/moby --log /x/log.json --log-format json --systemd-cgroup create --bundle /b/c --pid-file /b/c/init.pid c",
			"/b/c/config.json", dropcap.Bundle,
		},
		{
			"exec as the shim calls it",
			"--root /r --log /x/log.json --log-format json exec --process /tmp/runc-process1 --detach --pid-file /b/1.pid c",
			"/tmp/runc-process1", dropcap.Process,
		},
		{"flags with =", "--root=/r create --bundle=/b c", "/b/config.json", dropcap.Bundle},
		{"short flags", "exec -d -p p.json c", workDir + "/p.json", dropcap.Process},
		{"bundle defaults to the working directory", "run c", workDir + "/config.json", dropcap.Bundle},
		{"a global flag's value named like a command", "--root create delete c", "", dropcap.None},
		{"exec of a plain command", "exec c sh -c true", "", dropcap.None},
		{"a command that reads nothing", "--root /r kill c 9", "", dropcap.None},
		{"version", "--version", "", dropcap.None},
		{"nothing", "", "", dropcap.None},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path, kind := dropcap.Target(strings.Fields(test.args), workDir)
			if path != test.path || kind != test.kind {
				t.Errorf("got %q, %d; want %q, %d", path, kind, test.path, test.kind)
			}
		})
	}
}

func TestRewrite(t *testing.T) {
	tests := []struct {
		name   string
		kind   dropcap.Kind
		before string
		after  string // empty: unchanged, byte for byte
	}{
		{
			"all five sets of a bundle", dropcap.Bundle,
			`{"ociVersion":"1.0.2","process":{"args":["sh"],"capabilities":{
				"bounding":["CAP_CHOWN","CAP_SYS_RESOURCE","CAP_SYS_ADMIN"],"effective":["CAP_SYS_RESOURCE"],
				"permitted":["CAP_SYS_RESOURCE"],"inheritable":["CAP_SYS_RESOURCE"],"ambient":["CAP_SYS_RESOURCE"]}}}`,
			`{"ociVersion":"1.0.2","process":{"args":["sh"],"capabilities":{
				"bounding":["CAP_CHOWN","CAP_SYS_ADMIN"],"effective":[],"permitted":[],"inheritable":[],"ambient":[]}}}`,
		},
		{
			"a process file", dropcap.Process,
			`{"args":["sh"],"capabilities":{"bounding":["CAP_SYS_RESOURCE","CAP_KILL"]}}`,
			`{"args":["sh"],"capabilities":{"bounding":["CAP_KILL"]}}`,
		},
		{
			"limits above ours", dropcap.Process,
			`{"rlimits":[{"type":"RLIMIT_NOFILE","hard":18446744073709551615,"soft":4096},{"type":"RLIMIT_NOFILE","hard":1048576,"soft":1048576}]}`,
			`{"rlimits":[{"type":"RLIMIT_NOFILE","hard":20000,"soft":4096},{"type":"RLIMIT_NOFILE","hard":20000,"soft":20000}]}`,
		},
		{
			"an OOM score below ours", dropcap.Process,
			`{"oomScoreAdj":-999}`,
			`{"oomScoreAdj":-100}`,
		},
		{
			"large numbers elsewhere keep their digits", dropcap.Bundle,
			`{"linux":{"resources":{"memory":{"limit":9223372036854771712}}},"process":{"capabilities":{"bounding":["CAP_SYS_RESOURCE"]}}}`,
			`{"linux":{"resources":{"memory":{"limit":9223372036854771712}}},"process":{"capabilities":{"bounding":[]}}}`,
		},
		{
			"nothing to do", dropcap.Bundle,
			`{ "process": {"capabilities":{"bounding":["CAP_CHOWN"]},"oomScoreAdj":0,
				"rlimits":[{"type":"RLIMIT_NOFILE","hard":20000,"soft":1},{"type":"RLIMIT_OTHER","hard":99999}]}}`,
			"",
		},
		{"no process", dropcap.Bundle, `{"ociVersion":"1.0.2"}`, ""},
		{"a process of another shape", dropcap.Bundle, `{"process":["CAP_SYS_RESOURCE"]}`, ""},
	}
	limits := dropcap.Limits{
		Hard:        func(name string) (uint64, bool) { return 20000, name == "RLIMIT_NOFILE" },
		OOMScoreAdj: -100,
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := dropcap.Rewrite([]byte(test.before), test.kind, limits)
			if err != nil {
				t.Fatal(err)
			}
			if test.after == "" {
				if string(got) != test.before {
					t.Errorf("changed to %s", got)
				}
				return
			}
			if !reflect.DeepEqual(parse(t, got), parse(t, []byte(test.after))) {
				t.Errorf("got  %s\nwant %s", got, test.after)
			}
		})
	}
}

func TestRewriteRefusesWhatIsNotJSON(t *testing.T) {
	if _, err := dropcap.Rewrite([]byte(`{"process":`), dropcap.Bundle, dropcap.Limits{}); err == nil {
		t.Error("no error")
	}
}

func TestRewriteFileKeepsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(`{"process":{"capabilities":{"bounding":["CAP_SYS_RESOURCE"]}}}`), 0o640); err != nil {
		t.Fatal(err)
	}
	limits, err := dropcap.CurrentLimits()
	if err != nil {
		t.Fatal(err)
	}
	if err := dropcap.RewriteFile(path, dropcap.Bundle, limits); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"process":{"capabilities":{"bounding":[]}}}`; string(data) != want {
		t.Errorf("got %s, want %s", data, want)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, want 0640", info.Mode().Perm())
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left %v (error %v), want the one file", entries, err)
	}
}

func TestCurrentLimits(t *testing.T) {
	limits, err := dropcap.CurrentLimits()
	if err != nil {
		t.Fatal(err)
	}
	if files, ok := limits.Hard("RLIMIT_NOFILE"); !ok || files < 3 || files == math.MaxUint64 {
		t.Errorf("hard limit of open files: %d, %v", files, ok)
	}
	if _, ok := limits.Hard("RLIMIT_WRONG"); ok {
		t.Error("knows a limit that does not exist")
	}
}

func parse(t *testing.T, data []byte) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}
