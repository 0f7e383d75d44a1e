package audit

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFieldsAreDocumented holds the table of docs/reference/audit-log.md to the entry, in its order but for the begin.
func TestFieldsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "audit-log.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, fields, ok := strings.Cut(string(page), "\n## Fields\n")
	if !ok {
		t.Fatal("docs/reference/audit-log.md has no fields")
	}
	var want, got []string
	for f := range reflect.TypeFor[Entry]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		want = append(want, name)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-zA-Z]+)` \\|").FindAllStringSubmatch(fields, -1) {
		got = append(got, m[1])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-entry +docs/reference/audit-log.md\n%s", diff)
	}
}

// TestSettingsAreDocumented: so are the settings.
func TestSettingsAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "audit-log.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{SettingLevel, SettingFilter, SettingFileMiB, SettingFiles, SettingDays} {
		if !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), "set "+name+" ") {
			t.Errorf("docs/reference/audit-log.md does not name %s", name)
		}
	}
}
