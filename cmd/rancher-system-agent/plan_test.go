package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/daemon/preview"
)

// tree is everything below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		all[path] = fmt.Sprint(info.Mode(), info.ModTime())
		if e.Type().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all[path] += string(b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPlanCommand(t *testing.T) {
	m := newManagement(t)
	dir := t.TempDir()
	config := m.install(t, dir)
	conf := filepath.Join(dir, "conf.yaml")
	if err := os.WriteFile(conf, []byte("server: a\ntoken: old-secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	content := base64.StdEncoding.EncodeToString([]byte("server: b\ntoken: new-secret\n"))
	plan := fmt.Sprintf(`{"files":[{"path":%q,"content":%q}],"instructions":[{"name":"i","command":"touch","args":["%s/touched"],"env":["PASSWORD=third-secret"]}]}`, conf, content, dir)
	file := filepath.Join(dir, "plans", "x.plan")
	if err := os.Mkdir(filepath.Join(dir, "plans"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	out, code := agentCommand(t, config, "plan", file)
	for _, want := range []string{
		"replace " + conf + ", mode 0644 → 0600", "\n  -server: a", "\n  +server: b", "\n  +token: <masked:", "run 1 i: touch " + dir + "/touched", "env PASSWORD=<masked:",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if code != 0 || strings.Contains(out, "-secret") {
		t.Errorf("%d\n%s", code, out)
	}
	if d := cmp.Diff(before, tree(t, dir)); d != "" {
		t.Errorf("the host was changed: %s", d)
	}
	var page preview.Page
	if out, _ := agentCommand(t, config, "plan", "-o", "json", file); json.Unmarshal([]byte(out), &page) != nil || page.Empty || len(page.Files) != 1 || strings.Contains(out, "-secret") {
		t.Errorf("as JSON: %s", out)
	}

	sentinelOf(t, config)
	waitUntil(t, "the plan is applied", func() bool { _, err := os.Stat(filepath.Join(dir, "touched")); return err == nil })
	waitUntil(t, "there is nothing to do", func() bool {
		out, code := agentCommand(t, config, "plan", file)
		return code == 0 && strings.Contains(out, "nothing to do")
	})
}

func TestPlanCommandRefusals(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"field.plan": `{"files":[{"path":"x"}]}`, "bad.yaml": "files:\n- pth: /x\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		"plan":                              "plan needs one file",
		"plan " + dir + "/none.plan":        "no such file",
		"plan " + dir + "/field.plan":       "files[0].path",
		"plan " + dir + "/bad.yaml -o json": "bad.yaml:2",
	} {
		if out, code := agentCommand(t, filepath.Join(dir, "config.yaml"), strings.Fields(args)...); code != 1 || !strings.Contains(out, want) {
			t.Errorf("%s: %d %s", args, code, out)
		}
	}
}
