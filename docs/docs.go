// Package docs is the documentation, which the server shows at /dashboard/docs/, also without a network.
package docs

import (
	"embed"
	"fmt"
	"html"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

// Files are the pages, in Markdown, and their pictures.
//
//go:embed README.md benchmarks.md page.png growth-machines.svg growth-clusters.svg soak.svg start how-to explanation reference/*.md reference/openapi.yaml
var Files embed.FS

// OpenAPI is the description of all routes, reference/openapi.yaml. The error is that it cannot be read.
var OpenAPI = sync.OnceValues(func() (all map[string]any, err error) {
	text, err := Files.ReadFile("reference/openapi.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("read the description of all routes: %w", err)
	}
	return all, nil
})

// Base is where a server shows them, below its address.
const Base = "/dashboard/docs/"

// Shown is where a server shows a page, by the page's path in the repository, as in
// docs/reference/causes.md#plan-failed, which is at /dashboard/docs/reference/causes#plan-failed. Another path gets "".
func Shown(path string) string {
	page, anchor, _ := strings.Cut(path, "#")
	name, isPage := strings.CutSuffix(page, ".md")
	name, below := strings.CutPrefix(name, "docs/")
	if !isPage || !below {
		return ""
	}
	if name == "README" {
		return strings.TrimSuffix(Base, "/")
	}
	if anchor != "" {
		anchor = "#" + anchor
	}
	return Base + name + anchor
}

// Picture says whether a path is that of a picture, below Base as in Files.
func Picture(path string) bool {
	return slices.Contains([]string{"page.png", "growth-machines.svg", "growth-clusters.svg", "soak.svg"}, path)
}

// address is a page as messages name it.
var address = regexp.MustCompile(`\bdocs/(start|how-to|reference|explanation)/[a-z0-9-]+\.md(#[a-z0-9-]+)?`)

// On is a text for people whose pages are named by where a server shows them, as in https://SERVER/dashboard/docs/reference/causes#plan-failed.
func On(server, text string) string {
	return address.ReplaceAllStringFunc(text, func(path string) string { return server + Shown(path) })
}

// Linked is a text as HTML, whose pages are links.
func Linked(text string) template.HTML {
	linked := address.ReplaceAllStringFunc(html.EscapeString(text), func(path string) string {
		return `<a href="` + Shown(path) + `">` + path + `</a>`
	})
	return template.HTML(linked) // #nosec G203 -- the text is escaped, and an address has letters, digits and dashes alone
}

// Command is where a drover command is explained, by a line of it, as in "drover clusters pause harbour"; "" for another line.
func Command(line string) string {
	words := strings.Fields(line)
	for i, w := range words {
		if strings.Trim(w, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			words = words[:i]
			break
		}
	}
	all := Read().Pages["reference/cli"].Parts
	for ; len(words) > 1; words = words[:len(words)-1] {
		anchor := strings.Join(words, "-")
		if slices.ContainsFunc(all, func(p Part) bool { return p.Anchor == anchor }) {
			return Base + "reference/cli#" + anchor
		}
	}
	return ""
}

// Moved is where a page is now, by an address below Base: of a page that had another one once, and of one with ".md" behind it.
func Moved(address string) (to string, isMoved bool) {
	name, written := strings.CutSuffix(address, ".md")
	if to, isMoved = moved[name]; isMoved {
		return to, true
	}
	return name, written
}

// moved are the addresses that pages had before they got rooms of their own, by what messages of earlier versions print.
var moved = map[string]string{
	"agent": "reference/system-agent", "airgap": "how-to/provision-without-a-network", "api": "reference/api", "architecture": "explanation/architecture",
	"audit": "reference/audit-log", "backup": "how-to/back-up-the-server", "cli": "reference/cli", "client": "how-to/write-a-program",
	"clusters": "how-to/make-clusters", "conformance": "explanation/rancher-clients", "directories": "how-to/log-in-by-a-directory",
	"docker-hosts": "how-to/look-after-docker-hosts", "fleets": "how-to/give-plans-to-hosts", "images": "reference/instruction-images",
	"imported-clusters": "how-to/import-clusters", "kubectl": "how-to/use-kubectl", "metrics": "reference/metrics", "node-agent": "reference/node-agent",
	"objects": "how-to/name-secrets-in-clusters", "operations": "how-to/follow-operations", "page": "reference/web-page",
	"people": "how-to/let-people-in", "people-in-clusters": "explanation/rights-in-clusters", "rescue": "how-to/restore-a-cluster",
	"rke1": "how-to/keep-rke1-without-a-server", "rke1-clusters": "how-to/keep-rke1-clusters", "servers": "how-to/run-the-server",
	"systemd": "reference/system-agent-unit", "threat-model": "explanation/threat-model", "troubleshooting": "reference/causes",
	"upgrade": "how-to/replace-the-agent", "upgrades": "how-to/upgrade-clusters", "versions": "reference/kubernetes-versions", "README": "",
}
