// What differs between two plans of a machine, as previews show it, with secrets masked. What
// may be seen of a file depends on who wrote it: see Shown.

package render

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/plans"
)

// File is what changes in one file.
type File = apitypes.FileChange

// maxDiff bounds the diff of one file, in bytes.
const maxDiff = 16 << 10

// Shown says whether what is in a file may be seen, but for its secrets. Of other files a preview shows that they
// differ.
type Shown func(plans.File) bool

// Rendered shows the files whose text the server makes itself; all others of a cluster's plan may hold anything.
func Rendered(f plans.File) bool {
	return slices.ContainsFunc(shownFiles, func(end string) bool { return strings.HasSuffix(f.Path, end) })
}

// Public shows the files that every user of the host may read, as their permissions have it.
func Public(f plans.File) bool {
	const othersRead = 0o004
	mode, err := f.Mode()
	return err == nil && mode&othersRead != 0
}

// Files are the differences of the files that an apply of after adds or changes, where before was applied.
func Files(before, after plans.Plan, shown Shown) []File {
	had, has := contents(before), contents(after)
	var all []File
	for _, path := range slices.Sorted(maps.Keys(has)) {
		if old, is := had[path], has[path]; old != is {
			if text := fileDiff(old, is, shown); text != "" {
				all = append(all, File{Path: path, Diff: text})
			}
		}
	}
	return all
}

// Changes names what differs between two plans: "add file <path>", "change file <path>", "remove file <path>" for one that
// the plan deletes, "leave file <path>" for one that is no longer in the plan, which agents leave where it is, "run instruction <name>"
// for each instruction, as a new plan runs all of them, and "start unit <name>" or "restart unit
// <name>" when one of them does that. It is empty for equal plans.
func Changes(before, after plans.Plan) []string {
	if plans.Equal(before, after) {
		return nil
	}
	had, has := contents(before), contents(after)
	var changes []string
	for _, path := range slices.Sorted(maps.Keys(has)) {
		switch old, ok := had[path]; {
		case old == has[path]:
		case has[path].Action == plans.ActionDelete:
			if !ok || old.Action != plans.ActionDelete {
				changes = append(changes, "remove file "+path)
			}
		case !ok || old.Action == plans.ActionDelete:
			changes = append(changes, "add file "+path)
		default:
			changes = append(changes, "change file "+path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(had)) {
		if _, ok := has[path]; !ok && had[path].Action != plans.ActionDelete {
			changes = append(changes, "leave file "+path)
		}
	}
	for _, in := range after.Instructions {
		changes = append(changes, "run instruction "+in.Name)
	}
	switch unit, restarted := runtimes.Restarted(before.Instructions, after.Instructions); {
	case restarted && len(before.Instructions) == 0:
		changes = append(changes, "start unit "+unit)
	case restarted:
		changes = append(changes, "restart unit "+unit)
	}
	return changes
}

// Repeated names what differs in what agents do again and again: "ask probe <name>", "run periodic instruction
// <name>", and "end probe <name>" and "end periodic instruction <name>" for those that the new plan does not have.
func Repeated(before, after plans.Plan) []string {
	type thing struct {
		before, after any // nil for none
	}
	things := map[string]thing{}
	had, has := periodic(before), periodic(after)
	for name, p := range before.Probes {
		things["probe "+name] = thing{before: p}
	}
	for name, p := range had {
		things["periodic instruction "+name] = thing{before: p}
	}
	for name, p := range after.Probes {
		things["probe "+name] = thing{things["probe "+name].before, p}
	}
	for name, p := range has {
		things["periodic instruction "+name] = thing{things["periodic instruction "+name].before, p}
	}
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(things)) {
		switch t := things[name]; {
		case reflect.DeepEqual(t.before, t.after):
		case t.after == nil:
			changes = append(changes, "end "+name)
		case strings.HasPrefix(name, "probe "):
			changes = append(changes, "ask "+name)
		default:
			changes = append(changes, "run "+name)
		}
	}
	return changes
}

// periodic are the periodic instructions of a plan by name, or by number where they have none.
func periodic(p plans.Plan) map[string]plans.PeriodicInstruction {
	all := map[string]plans.PeriodicInstruction{}
	for i, in := range p.PeriodicInstructions {
		name := cmp.Or(in.Name, fmt.Sprint(i))
		all[name] = in
	}
	return all
}

// contents are the files of a plan with all that is said of them, by path.
func contents(p plans.Plan) map[string]plans.File {
	files := make(map[string]plans.File, len(p.Files))
	for _, f := range p.Files {
		files[f.Path] = f
	}
	return files
}

func fileDiff(old, is plans.File, shown Shown) string {
	before, after := contentOf(old), contentOf(is)
	a, b := masked(before, "", old.Path == "" || shown(old)), masked(after, before, shown(is) && (old.Path == "" || shown(old)))
	text := string(diff.Diff("before", []byte(a), "after", []byte(b)))
	// Without the three lines that name both sides.
	for range 3 {
		_, text, _ = strings.Cut(text, "\n")
	}
	if len(text) > maxDiff {
		text = text[:maxDiff] + fmt.Sprintf("\n… %d bytes more", len(text)-maxDiff)
	}
	if text == "" && old.Permissions != is.Permissions {
		text = fmt.Sprintf("permissions %q become %q\n", old.Permissions, is.Permissions)
	}
	return text
}

func contentOf(f plans.File) string {
	content, err := f.Bytes()
	if err != nil {
		return "" // the planner made it
	}
	return string(content)
}

// masked is the text of a file as people may see it, beside what it was before.
func masked(text, before string, shown bool) string {
	if text == "" {
		return ""
	}
	if shown && !secretKind.MatchString(text+before) {
		had := map[string]bool{}
		for _, line := range secretSetting.FindAllString(before, -1) {
			had[strings.TrimSuffix(line, ",")] = true
		}
		return secretSetting.ReplaceAllStringFunc(text, func(line string) string {
			return maskValue(line, before != "" && !had[strings.TrimSuffix(line, ",")])
		})
	}
	other := ""
	if before != "" && before != text {
		other = "other "
	}
	return fmt.Sprintf("(%scontent that is not shown, %d bytes)\n", other, len(text))
}

// shownFiles are the ends of paths of the files that are shown: those whose text the planner makes.
var shownFiles = []string{"/config.yaml.d/50-rancher.yaml", "/manifests/rancher/addons.yaml", "/manifests/rancher/managed-chart-config.yaml"}

// secretSetting matches settings and arguments whose names say that they should not be read over a shoulder, and
// addresses with credentials in them. The first group is what may be shown.
var secretSetting = regexp.MustCompile(`(?im)^(.*(?:token|password|passwd|secret|access-key|private-key|credential)[a-z0-9_.-]*"?\s*[:=]|.*://)\s*\S.*$`)

// inAddress are the credentials before the host of an address.
var inAddress = regexp.MustCompile(`://[^/@\s"]+@`)

// secretKind matches texts that are secret as a whole: manifests of Secrets, and private keys.
var secretKind = regexp.MustCompile(`(?im)kind"?\s*:\s*"?Secret\b|-----BEGIN [A-Z ]*PRIVATE KEY-----`)

// maskValue keeps what names a setting, and says whether its value is another one than before. Of an address it takes
// the credentials alone.
func maskValue(line string, changed bool) string {
	shown := secretSetting.FindStringSubmatch(line)[1]
	if strings.HasSuffix(shown, "://") {
		return inAddress.ReplaceAllString(line, "://(secret)@")
	}
	text := shown + " (secret)"
	if changed {
		text = shown + " (secret, another value)"
	}
	if strings.HasSuffix(line, ",") {
		text += ","
	}
	return text
}
