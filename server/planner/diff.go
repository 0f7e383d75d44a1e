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
	own := slices.ContainsFunc(shownFiles, func(end string) bool { return strings.HasSuffix(path, end) })
	if own && !secretKind.MatchString(text+before) {
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

// secretSetting matches settings and arguments whose names say that nobody should read them over a shoulder, and
// addresses with credentials in them. The first group is what may be shown.
var secretSetting = regexp.MustCompile(`(?im)^(.*(?:token|password|passwd|secret|access-key|private-key|credential)[a-z0-9_.-]*"?\s*[:=]|.*://)\s*\S.*$`)

// credentials are those before the host of an address.
var credentials = regexp.MustCompile(`://[^/@\s"]+@`)

var secretKind = regexp.MustCompile(`(?im)kind"?\s*:\s*"?Secret\b`)

// maskValue keeps what names a setting, and says whether its value is another one than before. Of an address it takes
// the credentials alone.
func maskValue(line string, changed bool) string {
	shown := secretSetting.FindStringSubmatch(line)[1]
	if strings.HasSuffix(shown, "://") {
		return credentials.ReplaceAllString(line, "://(secret)@")
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
