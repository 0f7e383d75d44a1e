package apply_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/test/skips"
)

// listing is everything on the host and in the agent's directories, with modes and contents.
func (h *host) listing() string {
	h.t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(h.dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		all.WriteString(name + " " + info.Mode().String() + " " + info.ModTime().String())
		if info.Mode().IsRegular() {
			all.WriteString(" " + h.content(name))
		}
		all.WriteByte('\n')
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return all.String()
}

func (h *host) look(p plans.Plan, change ...func(*apply.Delivery)) apply.Preview {
	h.t.Helper()
	got, err := apply.Look(h.t.Context(), h.options, delivery(h.t, p, change...))
	if err != nil {
		h.t.Fatal(err)
	}
	return got
}

// put makes a file of the host's before any plan.
func (h *host) put(name, content string, mode fs.FileMode) {
	h.t.Helper()
	path := h.root(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		h.t.Fatal(err)
	}
}

// TestPreviewIsWhatIsDone, for every kind of entry: it says the change, changes nothing
// itself, the apply makes it true, and afterwards nothing is left to say.
func TestPreviewIsWhatIsDone(t *testing.T) {
	if os.Getuid() != 0 {
		skips.Skip(t, "only root may give files away")
	}
	const actual = "/var/lib/agent/etc/k3s/config.yaml"
	const linked = "/etc/rancher/k3s/config.yaml"
	owned := file("/etc/f", "1")
	owned.UID, owned.GID = 12, 34
	kept := file("/etc/f", "2")
	kept.UID, kept.GID = -1, -1
	sticky := plans.File{Path: "/srv/d", Directory: true, Permissions: "1777"}
	tests := []struct {
		name  string
		put   func(h *host)
		files []plans.File
		want  []apply.FileChange
	}{
		{"create, with parents", nil, []plans.File{file("/a/b/f", "1")},
			[]apply.FileChange{{Path: "/a/b/f", Really: "/a/b/f", Action: "create", New: []byte("1"), NewMode: 0o600, NewOwner: "0:0"}}},
		{"replace", func(h *host) { h.put("/etc/f", "old", 0o644) }, []plans.File{file("/etc/f", "new")},
			[]apply.FileChange{{Path: "/etc/f", Really: "/etc/f", Action: "replace", Old: []byte("old"), New: []byte("new"), OldMode: 0o644, NewMode: 0o600, OldOwner: "0:0", NewOwner: "0:0"}}},
		{"mode", func(h *host) { h.put("/etc/f", "1", 0o644) }, []plans.File{file("/etc/f", "1")},
			[]apply.FileChange{{Path: "/etc/f", Really: "/etc/f", Action: "mode", Old: []byte("1"), New: []byte("1"), OldMode: 0o644, NewMode: 0o600, OldOwner: "0:0", NewOwner: "0:0"}}},
		{"owner", func(h *host) { h.put("/etc/f", "1", 0o600) }, []plans.File{owned},
			[]apply.FileChange{{Path: "/etc/f", Really: "/etc/f", Action: "owner", Old: []byte("1"), New: []byte("1"), OldMode: 0o600, NewMode: 0o600, OldOwner: "0:0", NewOwner: "12:34"}}},
		{"an owner that stays", func(h *host) { h.put("/etc/f", "1", 0o600); h.own("/etc/f", 5, 6) }, []plans.File{kept},
			[]apply.FileChange{{Path: "/etc/f", Really: "/etc/f", Action: "replace", Old: []byte("1"), New: []byte("2"), OldMode: 0o600, NewMode: 0o600, OldOwner: "5:6", NewOwner: "5:6"}}},
		{"delete", func(h *host) { h.put("/etc/f", "1", 0o600) }, []plans.File{{Path: "/etc/f", Action: plans.ActionDelete}},
			[]apply.FileChange{{Path: "/etc/f", Really: "/etc/f", Action: "delete", Old: []byte("1"), OldMode: 0o600, OldOwner: "0:0"}}},
		{"delete a tree", func(h *host) { h.put("/srv/d/f", "1", 0o600) }, []plans.File{{Path: "/srv/d", Directory: true, Action: plans.ActionDelete}},
			[]apply.FileChange{{Path: "/srv/d", Really: "/srv/d", Action: "delete", OldMode: 0o755, OldOwner: "0:0"}}},
		{"delete what is not there", nil, []plans.File{{Path: "/etc/f", Action: plans.ActionDelete}}, nil},
		{"mkdir", nil, []plans.File{sticky},
			[]apply.FileChange{{Path: "/srv/d", Really: "/srv/d", Action: "mkdir", NewMode: 0o777 | fs.ModeSticky, NewOwner: "0:0"}}},
		{"mode of a directory behind a link", func(h *host) { h.put("/real/d/f", "1", 0o600); h.link("/srv", "/real") }, []plans.File{sticky},
			[]apply.FileChange{{Path: "/srv/d", Really: "/srv/d", Action: "mode", OldMode: 0o755, NewMode: 0o777 | fs.ModeSticky, OldOwner: "0:0", NewOwner: "0:0"}}},
		{"redirected", func(h *host) { h.put(linked, "operator's", 0o644) }, []plans.File{file(linked, "1")},
			[]apply.FileChange{
				{Path: linked, Really: actual, Action: "create", New: []byte("1"), NewMode: 0o600, NewOwner: "0:0"},
				{Path: linked, Really: actual, Action: "link", Old: []byte("operator's"), OldMode: 0o644, OldOwner: "0:0"},
			}},
		{"redirected, both places the same", func(h *host) { h.put(actual, "0", 0o600); h.link("/etc/rancher/k3s", "/var/lib/agent/etc/k3s") }, []plans.File{file(linked, "1")},
			[]apply.FileChange{{Path: linked, Really: actual, Action: "replace", Old: []byte("0"), New: []byte("1"), OldMode: 0o600, NewMode: 0o600, OldOwner: "0:0", NewOwner: "0:0"}}},
		{"redirected, deleted", func(h *host) { h.put(actual, "1", 0o600); h.link(linked, actual) }, []plans.File{{Path: linked, Action: plans.ActionDelete}},
			[]apply.FileChange{
				{Path: linked, Really: actual, Action: "delete", OldMode: 0o777, OldOwner: "0:0"},
				{Path: linked, Really: actual, Action: "delete", Old: []byte("1"), OldMode: 0o600, OldOwner: "0:0"},
			}},
		{"a directory and a file in it", nil, []plans.File{{Path: "/srv/d", Directory: true}, file("/srv/d/f", "1")},
			[]apply.FileChange{
				{Path: "/srv/d", Really: "/srv/d", Action: "mkdir", NewMode: 0o755, NewOwner: "0:0"},
				{Path: "/srv/d/f", Really: "/srv/d/f", Action: "create", New: []byte("1"), NewMode: 0o600, NewOwner: "0:0"},
			}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			if test.put != nil {
				test.put(h)
			}
			p := plans.Plan{Files: test.files}
			before := h.listing()
			preview := h.look(p)
			if diff := cmp.Diff(test.want, preview.Files); diff != "" {
				t.Error(diff)
			}
			if after := h.listing(); after != before {
				t.Errorf("looking changed the host: %s", cmp.Diff(before, after))
			}
			if preview.Empty() != (test.want == nil) {
				t.Error("empty")
			}
			var seen observer
			h.options.Observe = seen.observe
			if r := h.apply(p); !r.Succeeded {
				t.Fatalf("%+v", r)
			}
			var changed, wanted []string
			for _, e := range seen.all() {
				if e.Kind == apply.FileChanged {
					changed = append(changed, e.Name)
				}
			}
			for _, c := range test.want {
				if len(wanted) == 0 || wanted[len(wanted)-1] != c.Path {
					wanted = append(wanted, c.Path)
				}
			}
			if diff := cmp.Diff(wanted, changed); diff != "" {
				t.Errorf("the apply did something else: %s", diff)
			}
			if left := h.look(p); !left.Empty() {
				t.Errorf("after the apply: %+v", left.Files)
			}
		})
	}
}

// own gives a file away.
func (h *host) own(name string, uid, gid int) {
	h.t.Helper()
	if err := os.Chown(h.root(name), uid, gid); err != nil {
		h.t.Fatal(err)
	}
}

// link makes a link of the host's before any plan.
func (h *host) link(name, target string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.root(name)), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Symlink(target, h.root(name)); err != nil {
		h.t.Fatal(err)
	}
}

// TestPreviewFollowsThePlansOrder: what an entry does depends on the ones before it.
func TestPreviewFollowsThePlansOrder(t *testing.T) {
	h := newHost(t)
	h.put("/srv/d/f", "1", 0o600)
	h.put("/srv/p", "a file", 0o600)
	p := plans.Plan{Files: []plans.File{
		{Path: "/srv/d", Directory: true, Action: plans.ActionDelete}, file("/srv/d/f", "1"), file("/srv/d/f", "2"),
		{Path: "/srv/p", Action: plans.ActionDelete}, {Path: "/srv/p", Directory: true}, file("/srv/p/f", "3"),
	}}
	var got []string
	for _, c := range h.look(p).Files {
		got = append(got, c.Action+" "+c.Path+" "+c.Fault)
	}
	want := []string{"delete /srv/d ", "create /srv/d/f ", "replace /srv/d/f ", "delete /srv/p ", "mkdir /srv/p ", "create /srv/p/f "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if r := h.apply(p); !r.Succeeded {
		t.Errorf("%+v", r)
	}
}

func TestPreviewOfWhatCannotBeDone(t *testing.T) {
	h := newHost(t)
	h.put("/srv/d/f", "1", 0o600)
	h.put("/srv/file", "1", 0o600)
	tests := []struct {
		file plans.File
		want string
	}{
		{file("/srv/d", "x"), "is a directory"},
		{file("/srv/file/f", "x"), "not a directory"},
		{plans.File{Path: "/srv/file", Directory: true}, "not a directory"},
		{plans.File{Path: "/srv/d", Action: plans.ActionDelete}, "directory not empty"},
	}
	for _, test := range tests {
		p := plans.Plan{Files: []plans.File{test.file}}
		preview := h.look(p)
		if len(preview.Files) != 1 || preview.Files[0].Fault != test.want || preview.Empty() {
			t.Errorf("%s: %+v", test.file.Path, preview.Files)
			continue
		}
		r := h.apply(p)
		if r.Succeeded || r.Failure.Reason != "file "+test.file.Path+": "+preview.Files[0].Fault {
			t.Errorf("the apply says %+v", r.Failure)
		}
	}
}

// TestPreviewOfCommands: a plan that was applied has none left, no matter which source delivers it again;
// one on its way has those that did not end.
func TestPreviewOfCommands(t *testing.T) {
	h := newHost(t)
	p := plans.Plan{
		Instructions: []plans.OneTimeInstruction{
			{Instruction: plans.Instruction{Name: "install", Image: "", Command: "sh", Args: []string{"-c", "true"}, Env: []string{"A=b"}}},
			{Instruction: plans.Instruction{Name: "text", Script: "true"}},
		},
		PeriodicInstructions: []plans.PeriodicInstruction{periodic("beat", "exit 1")},
		Probes:               map[string]plans.Probe{"web": {HTTPGetAction: plans.HTTPGet{URL: "http://127.0.0.1/"}}, "api": {HTTPGetAction: plans.HTTPGet{URL: "http://127.0.0.1/"}}},
	}
	d := delivery(t, p)
	want := apply.Preview{
		Source: "remote", Checksum: d.Checksum,
		Instructions: []apply.CommandPreview{
			{Name: "install", Args: []string{"sh", "-c", "true"}, Env: []string{"A=b"}},
			{Name: "text", Args: []string{"script"}, Script: "true"},
		},
		Periodic: []apply.CommandPreview{{Name: "beat", Args: []string{"sh", "-c", "exit 1"}}},
		Probes:   []string{"api", "web"},
	}
	if diff := cmp.Diff(want, h.look(p)); diff != "" {
		t.Error(diff)
	}
	h.apply(p)
	for _, change := range []func(*apply.Delivery){id("uid-1"), id("uid-2"), of("dropped", "x")} {
		if got := h.look(p, change); !got.Empty() || len(got.Probes) != 2 {
			t.Errorf("%+v", got)
		}
	}

	failing := plans.Plan{Instructions: []plans.OneTimeInstruction{shell("a", "exit 1")}}
	h.apply(failing)
	if got := h.look(failing, id("uid-9")); len(got.Instructions) != 1 {
		t.Errorf("a failed plan counts as applied: %+v", got)
	}
}

func TestPreviewOfAPlanOnItsWay(t *testing.T) {
	h := newHost(t)
	fifo := h.fifo("go")
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("before", ""), h.counting("slow", "read x < "+fifo)}}
	agent := begun(t, h, p)
	got := h.look(p)
	if len(got.Instructions) != 1 || got.Instructions[0].Name != "slow" {
		t.Errorf("%+v", got.Instructions)
	}
	if got := h.look(p, id("uid-2")); len(got.Instructions) != 2 {
		t.Errorf("another delivery would run all of it: %+v", got.Instructions)
	}
	if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := agent.Wait(); err != nil {
		t.Fatal(err)
	}
}
