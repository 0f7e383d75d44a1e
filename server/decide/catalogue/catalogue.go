// The table: what each code means, and what a person does about it. It is the page that people read.

package catalogue

import (
	"regexp"
	"slices"
	"sync"

	"github.com/drover-project/drover/docs"
)

// Kind orders causes: what comes first in a cluster is not there because of what comes after it.
type Kind int

// The kinds, first cause first.
const (
	// Failure is something that goes on only with a change, or by trying again.
	Failure Kind = iota
	// Loss is a host, an agent or a node that worked, or that should be there, and is not.
	Loss
	// Work is under way and goes on by itself.
	Work
	// Turn is a wait for other machines, or for a person.
	Turn
)

// kinds are their names on the page.
var kinds = []string{"failure", "loss", "work", "turn"}

// Row is one cause.
type Row struct {
	Code Code
	// Cluster says that the cause is the whole cluster's: all of its machines show it.
	Cluster bool
	Kind    Kind
	// Host says that the log of the distribution on the machine's host may show more.
	Host bool
	// Title is a few words, Explanation what it means, Fix what a person does; in Markdown. NAME in Fix stands
	// for the machine or the cluster, UNIT for the distribution's systemd unit.
	Title, Explanation, Fix string
}

// Docs is the place of the row in the documentation.
func (r Row) Docs() string { return "docs/" + page + "#" + string(r.Code) }

// Find is the row of a code; not ok for one that the catalogue does not have.
func Find(code Code) (Row, bool) {
	i := slices.IndexFunc(All(), func(row Row) bool { return row.Code == code })
	if i < 0 {
		return Row{}, false
	}
	return All()[i], true
}

const page = "reference/causes.md"

// What the page has of a row: a line of its table, and a section.
var (
	lines    = regexp.MustCompile(`(?m)^\| \[([a-z0-9-]+)\]\(#[a-z0-9-]+\) \| (cluster|machine) \| ([a-z]+) \| (host)? \| (.+) \|$`)
	sections = regexp.MustCompile(`(?m)^## ([a-z0-9-]+)\n\n\*\*.+?\.\*\* (.+)\n\nWhat to do: (.+)$`)
)

// All are the rows, in the order of the page.
var All = sync.OnceValue(func() (all []Row) {
	text, _ := docs.Files.ReadFile(page) // it is in the binary; tests hold that it is whole
	texts := map[string][]string{}
	for _, s := range sections.FindAllStringSubmatch(string(text), -1) {
		texts[s[1]] = s[2:]
	}
	for _, l := range lines.FindAllStringSubmatch(string(text), -1) {
		row := Row{Code: Code(l[1]), Cluster: l[2] == "cluster", Kind: Kind(slices.Index(kinds, l[3])), Host: l[4] != "", Title: l[5]}
		if words := texts[l[1]]; words != nil {
			row.Explanation, row.Fix = words[0], words[1]
		}
		all = append(all, row)
	}
	return all
})
