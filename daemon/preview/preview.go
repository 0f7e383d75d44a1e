// Package preview shows people what a plan would do to this host: files as differences,
// commands in their order, and no secret in either.
package preview

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
)

// Page is a preview without secrets. It marshals to JSON.
type Page struct {
	Plan string `json:"plan"` // its checksum
	// Empty says that there is nothing to do.
	Empty        bool      `json:"empty"`
	Files        []File    `json:"files"`
	Instructions []Command `json:"instructions"`
	Periodic     []Command `json:"periodic"`
	Probes       []string  `json:"probes"`
}

// File is one change of a file.
type File struct {
	Path   string `json:"path"`
	Really string `json:"really,omitempty"` // where the content is kept, when that is elsewhere
	Action string `json:"action"`
	// Diff is a unified diff, or a sentence where there can be none.
	Diff     string `json:"diff,omitempty"`
	OldMode  string `json:"oldMode,omitempty"`
	NewMode  string `json:"newMode,omitempty"`
	OldOwner string `json:"oldOwner,omitempty"`
	NewOwner string `json:"newOwner,omitempty"`
	// Fault is why the change cannot be made; the apply would fail here.
	Fault string `json:"fault,omitempty"`
}

// Command is one instruction that would run.
type Command struct {
	Name   string   `json:"name,omitempty"`
	Image  string   `json:"image,omitempty"`
	Args   []string `json:"args"`
	Env    []string `json:"env,omitempty"`
	Script string   `json:"script,omitempty"`
}

// Of masks a preview. Tags of two pages cannot be compared.
func Of(p apply.Preview) Page {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	return pageOf(p, masker{key})
}

func pageOf(p apply.Preview, m masker) Page {
	page := Page{Plan: p.Checksum, Empty: p.Empty(), Files: []File{}, Instructions: m.commands(p.Instructions), Periodic: m.commands(p.Periodic), Probes: append([]string{}, p.Probes...)}
	for _, f := range p.Files {
		page.Files = append(page.Files, m.file(f))
	}
	return page
}

func (m masker) file(f apply.FileChange) File {
	shown := File{Path: f.Path, Action: f.Action, OldOwner: f.OldOwner, NewOwner: f.NewOwner, Fault: f.Fault}
	if f.Really != f.Path {
		shown.Really = f.Really
	}
	if f.OldOwner != "" {
		shown.OldMode = mode(f.OldMode)
	}
	if f.NewOwner != "" {
		shown.NewMode = mode(f.NewMode)
	}
	if !bytes.Equal(f.Old, f.New) {
		shown.Diff = m.diff(f)
	}
	return shown
}

// mode is how chmod has it.
func mode(m fs.FileMode) string {
	n := uint32(m.Perm())
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if m&flag != 0 {
			n |= bit
		}
	}
	return fmt.Sprintf("%04o", n)
}

// diff is the change of the content.
func (m masker) diff(f apply.FileChange) string {
	if !isText(f.Old) || !isText(f.New) {
		return fmt.Sprintf("binary: %s → %s\n", binary(f.Old), binary(f.New))
	}
	old, wanted := shown(m.text(string(f.Old))), shown(m.text(string(f.New)))
	return string(diff.Diff(f.Path+" (now)", []byte(old), f.Path+" (wanted)", []byte(wanted)))
}

func binary(b []byte) string {
	if b == nil {
		return "nothing, or too large to be shown"
	}
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%d bytes, sha256 %s", len(b), hex.EncodeToString(sum[:]))
}

// shown is text that a terminal shows and does not obey, line by line.
func shown(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\t", "    "), "\n")
	for i, line := range lines {
		lines[i] = plans.SafeLine(line)
	}
	return strings.Join(lines, "\n")
}

func (m masker) commands(all []apply.CommandPreview) []Command {
	masked := []Command{}
	for _, c := range all {
		masked = append(masked, Command{Name: c.Name, Image: m.text(c.Image), Args: m.args(c.Args), Env: m.env(c.Env), Script: m.text(c.Script)})
	}
	return masked
}

// String is the page for a terminal.
func (p Page) String() string {
	var b strings.Builder
	if p.Empty {
		fmt.Fprintf(&b, "Plan %s: nothing to do, the host is as the plan wants it.\n", plans.Short(p.Plan))
	}
	for _, f := range p.Files {
		f.print(&b)
	}
	for i, c := range p.Instructions {
		c.print(&b, fmt.Sprintf("run %d", i+1))
	}
	for _, c := range p.Periodic {
		c.print(&b, "run periodically")
	}
	if len(p.Probes) > 0 && !p.Empty {
		fmt.Fprintf(&b, "probe %s\n", plans.SafeLine(strings.Join(p.Probes, ", ")))
	}
	return b.String()
}

func (f File) print(b *strings.Builder) {
	action := cmp.Or(f.Action, "cannot be looked at")
	fmt.Fprintf(b, "%s %s%s%s\n", action, plans.SafeLine(f.Path), change(", mode", f.OldMode, f.NewMode), change(", owner", f.OldOwner, f.NewOwner))
	if f.Really != "" {
		fmt.Fprintf(b, "  kept in %s\n", plans.SafeLine(f.Really))
	}
	if f.Fault != "" {
		fmt.Fprintf(b, "  FAILS: %s\n", plans.SafeLine(f.Fault))
	}
	for line := range strings.Lines(f.Diff) {
		if !strings.HasPrefix(line, "diff ") {
			fmt.Fprintf(b, "  %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
}

// change is from and to, or the one that there is.
func change(what, from, to string) string {
	switch {
	case from == to || to == "":
		return ""
	case from == "":
		return what + " " + to
	}
	return what + " " + from + " → " + to
}

func (c Command) print(b *strings.Builder, how string) {
	words := make([]string, len(c.Args))
	for i, a := range c.Args {
		if words[i] = plans.SafeLine(a); words[i] == "" || strings.ContainsAny(words[i], " \"'\\$") {
			words[i] = fmt.Sprintf("%q", words[i])
		}
	}
	name := ""
	if c.Name != "" {
		name = " " + plans.SafeLine(c.Name)
	}
	fmt.Fprintf(b, "%s%s: %s\n", how, name, strings.Join(words, " "))
	if c.Image != "" {
		fmt.Fprintf(b, "  image %s\n", plans.SafeLine(c.Image))
	}
	for _, e := range c.Env {
		fmt.Fprintf(b, "  env %s\n", plans.SafeLine(e))
	}
	for line := range strings.Lines(c.Script) {
		fmt.Fprintf(b, "  | %s\n", plans.SafeLine(strings.TrimSuffix(line, "\n")))
	}
}
