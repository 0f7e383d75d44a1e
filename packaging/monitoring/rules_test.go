package monitoring

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/test/skips"
)

// rules are what the file has.
type rules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

// TestRules: each asks for measures that there are, and leads to a section that says what to do; and each has a test.
func TestRules(t *testing.T) {
	var all rules
	if err := yaml.Unmarshal([]byte(Rules), &all); err != nil {
		t.Fatal(err)
	}
	metrics, alerts, tests := read(t, "../../docs/reference/metrics.md"), read(t, "../../docs/reference/alerts.md"), read(t, "tests.yaml")
	measure := regexp.MustCompile(`drover_[a-z_]+`)
	count := 0
	for _, rule := range all.Groups[0].Rules {
		count++
		for _, name := range append(measure.FindAllString(rule.Expr, -1), "up") {
			if name != "up" && !strings.Contains(metrics, "`"+name+"`") {
				t.Errorf("%s asks for %s, which no server has", rule.Alert, name)
			}
		}
		if want := Runbooks + "#" + strings.ToLower(rule.Alert); rule.Annotations["runbook_url"] != want || !strings.Contains(alerts, "\n## "+rule.Alert+"\n") {
			t.Errorf("%s leads to %s, want a section of that name at %s", rule.Alert, rule.Annotations["runbook_url"], want)
		}
		if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || !strings.Contains(tests, "- name: "+rule.Alert+"\n") {
			t.Errorf("%s lacks its severity, its summary or its test", rule.Alert)
		}
	}
	if count < 10 || count != strings.Count(alerts, "\n## ") {
		t.Errorf("%d rules and %d sections", count, strings.Count(alerts, "\n## "))
	}
}

// TestPromtool has Prometheus' own tool read the rules, and let each fire.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		skips.Skip(t, "promtool is not installed")
	}
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "tests.yaml"}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
