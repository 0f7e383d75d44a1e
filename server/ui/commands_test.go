package ui_test

import (
	"html"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestShownCommands: what an address or a document says is a word of a command that pages show, and never a command.
func TestShownCommands(t *testing.T) {
	const evil = "x'\"; evil $(evil) `evil` ${x} & evil | evil > /nonexistent/evil\nevil #\\"
	b := apibed.New(t)
	apibed.HarbourToSee(b)
	key := "fleet-default/custom-0f31c2aa9d10"
	if _, err := b.State.Machines.Modify(t.Context(), key, func(m records.Machine) (records.Machine, error) {
		m.Status.Node, m.Claim = &records.NodeRef{Name: evil}, &records.Claim{Source: evil, At: apibed.Start}
		return m, nil
	}); err != nil {
		t.Fatal(err)
	}
	fleet := records.Fleet{Object: records.Object{Namespace: "fleet-default", Name: evil}, ID: "f-yard"}
	if _, err := b.State.Fleets.Create(t.Context(), "fleet-default/yard", fleet); err != nil {
		t.Fatal(err)
	}
	if _, err := b.State.Users.Modify(t.Context(), "u-bob", func(u records.User) (records.User, error) { u.Username = evil; return u, nil }); err != nil {
		t.Fatal(err)
	}
	paths := append([]string{"fleets/" + url.PathEscape(evil), "machines/" + key, "do/join-fleet", "do/rehearse/fleet-default/harbour", "do/snapshot/fleet-default/harbour", "do/window/fleet-default/harbour"}, apibed.Pages...)
	for _, page := range []string{"users", "machines/" + key, "fleets/" + url.PathEscape(evil)} {
		for _, m := range regexp.MustCompile(`href="/dashboard/(do/[^"?]+)"`).FindAllStringSubmatch(string(b.Look(page, b.Admin).Raw), -1) {
			paths = append(paths, html.UnescapeString(m[1]))
		}
	}
	query := url.Values{}
	for _, name := range []string{
		"q", "state", "sort", "cluster", "user", "verb", "kind", "object", "labels", "taints", "node-name", "line", "snapshot", "version", "mode", "ttl", "description", "role", "group", "window",
		"fleet", "name", "username", "value",
	} {
		query.Set(name, evil)
	}
	query.Set("worker", "on")
	looked := 0
	for _, path := range paths {
		for _, asked := range []string{"", "?" + query.Encode()} {
			text := string(b.Look(path+asked, b.Admin).Raw)
			for _, m := range regexp.MustCompile(`data-copy="([^"]*)"|<code>((?:drover|kubectl) [^<]*)</code>`).FindAllStringSubmatch(text, -1) {
				command := html.UnescapeString(m[1] + m[2])
				cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "for stub in drover kubectl curl base64 sudo sh; do eval \"$stub() { :; }\"; done\n"+command)
				cmd.Env = []string{"PATH=/nonexistent"}
				if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
					t.Errorf("%s%s: %s\ndoes in a shell: %v, %s", path, asked, command, err, out)
				}
				looked++
			}
		}
	}
	if looked < 80 {
		t.Errorf("only %d commands were looked at", looked)
	}
	if text := string(b.Look("machines?cluster=x%3Bevil", b.Admin).Raw); !strings.Contains(text, `data-copy="drover machines ls --cluster &#39;x;evil&#39;"`) {
		t.Errorf("the command of a list: %s", text)
	}
}
