package hostreport

import (
	_ "embed"
	"slices"
	"strings"
)

//go:embed expected.txt
var expectedText string

// expected are parts of lines that explain nothing, by the runtime that logs them: those of expected.txt.
var expected = readExpected(expectedText)

func readExpected(text string) map[string][][]string {
	rows := map[string][][]string{}
	for line := range strings.Lines(text) {
		runtimes, parts, is := strings.Cut(strings.TrimSpace(line), " | ")
		if !is || strings.HasPrefix(line, "#") {
			continue
		}
		for runtime := range strings.FieldsSeq(runtimes) {
			rows[runtime] = append(rows[runtime], strings.Split(parts, " … "))
		}
	}
	return rows
}

// isExpected says whether a runtime, k3s or rke2, logs such a line on a healthy start: it has all parts of one of the rows.
func isExpected(runtime, line string) bool {
	return slices.ContainsFunc(expected[runtime], func(parts []string) bool { return hasAll(line, parts) })
}

func hasAll(line string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
}
