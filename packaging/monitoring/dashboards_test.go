package monitoring

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/skips"
)

// TestDashboards: each is JSON whose panels lie beside each other, and asks for measures that servers have, in words of Prometheus.
func TestDashboards(t *testing.T) {
	metrics := read(t, "../../docs/reference/metrics.md")
	var recorded strings.Builder
	recorded.WriteString("groups: [{name: dashboards, rules: [\n")
	for _, name := range Dashboards() {
		text, err := Dashboard(name)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			UID, Title string
			Panels     []struct {
				Title   string
				GridPos struct{ X, Y, W, H int }
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &d); err != nil || d.UID != "drover-"+name || len(d.Panels) < 8 {
			t.Fatalf("dashboard %s: %+v %v", name, d, err)
		}
		taken := map[string]string{}
		for _, p := range d.Panels {
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					at := fmt.Sprint(x, " ", y)
					if taken[at] != "" || x > 23 {
						t.Errorf("%s: %q lies over %q at %s", name, p.Title, taken[at], at)
					}
					taken[at] = p.Title
				}
			}
			for _, target := range p.Targets {
				for _, measure := range regexp.MustCompile(`drover_[a-z_]+`).FindAllString(target.Expr, -1) {
					of := measure
					for _, part := range []string{"_bucket", "_count", "_sum"} {
						of = strings.TrimSuffix(of, part)
					}
					if !strings.Contains(metrics, "`"+of+"`") {
						t.Errorf("%s asks for %s, which no server has", p.Title, measure)
					}
				}
				fmt.Fprintf(&recorded, "{record: 'dashboard:%d', expr: %s},\n", len(taken), strconv.Quote(target.Expr))
			}
		}
	}
	if _, err := Dashboard("none"); err == nil || !strings.Contains(err.Error(), "[clusters server]") {
		t.Errorf("a dashboard that is not there: %v", err)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		skips.Skip(t, "promtool is not installed")
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(recorded.String()+"]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool does not read the expressions: %v\n%s", err, out)
	}
}
