// Differences of files as a preview shows them. Only files that the planner makes itself are shown, with
// their secrets masked; of all others, which may hold anything, it shows that they differ.

package planner

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/drover-project/drover/plans"
)

// FileDiff is what changes in one file.
type FileDiff struct {
	Path string `json:"path"`
	// Diff is in the unified form of diff -u, without the lines that name the files. Secrets are masked.
	Diff string `json:"diff"`
}

// maxDiff bounds the diff of one file, in bytes.
const maxDiff = 16 << 10

// diffs are those of the files that an apply adds or changes.
func diffs(before, after plans.Plan) []FileDiff {
	had, has := fileContents(before), fileContents(after)
	var all []FileDiff
	for _, path := range slices.Sorted(maps.Keys(has)) {
		if old, is := had[path], has[path]; old != is {
			if text := fileDiff(path, old, is); text != "" {
				all = append(all, FileDiff{Path: path, Diff: text})
			}
		}
	}
	return all
}

func fileDiff(path string, old, is plans.File) string {
	before, after := contentOf(old), contentOf(is)
	a, b := masked(path, before, ""), masked(path, after, before)
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
func masked(path, text, before string) string {
	if text == "" {
		return ""
	}
	switch {
	case strings.HasSuffix(path, "/config.yaml.d/50-rancher.yaml"):
		had := map[string]bool{}
		for _, line := range secretSetting.FindAllString(before, -1) {
			had[strings.TrimSuffix(line, ",")] = true
		}
		return secretSetting.ReplaceAllStringFunc(text, func(line string) string {
			return maskValue(line, before != "" && !had[strings.TrimSuffix(line, ",")])
		})
	case strings.HasSuffix(path, "/manifests/rancher/addons.yaml"), strings.HasSuffix(path, "/manifests/rancher/managed-chart-config.yaml"):
		if !secretKind.MatchString(text+before) && !secretSetting.MatchString(text+before) {
			return text
		}
	}
	other := ""
	if before != "" && before != text {
		other = "other "
	}
	return fmt.Sprintf("(%scontent that is not shown, %d bytes)\n", other, len(text))
}

// secretSetting matches settings whose names say that nobody should read them over a shoulder.
var secretSetting = regexp.MustCompile(`(?im)^\s*"?[a-z0-9_.-]*(token|password|passwd|secret|access-key|private-key|credential)[a-z0-9_.-]*"?\s*:\s*.+$`)

var secretKind = regexp.MustCompile(`(?im)kind"?\s*:\s*"?Secret\b`)

// maskValue keeps the name of a setting, and says whether its value is another one than before.
func maskValue(line string, changed bool) string {
	name, value, _ := strings.Cut(line, ":")
	text := name + ": (secret)"
	if changed {
		text = name + ": (secret, another value)"
	}
	if strings.HasSuffix(value, ",") {
		text += ","
	}
	return text
}
