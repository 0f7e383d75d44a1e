// Reading the pages: Markdown as GitHub has it, whose links lead to where a server shows the pages.

package docs

import (
	"bytes"
	"html/template"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// Manual is the whole documentation.
type Manual struct {
	// Pages are by paths below docs without ".md"; that of README.md is "".
	Pages    map[string]Page
	sections []section
}

// Page is a page.
type Page struct {
	Title string
	// Text is HTML, without the title.
	Text template.HTML
	// Parts are its headings of the second level.
	Parts []Part
}

// Part is a heading of a page.
type Part struct{ Title, Anchor string }

// section is what stands below a heading, as text to be searched.
type section struct {
	page, title string // of the page
	Part
	words string
	lower string // words in lower case, to be searched
}

// Read reads the pages, once, when the first of them is asked for: a server starts without them.
var Read = sync.OnceValue(func() *Manual {
	m := &Manual{Pages: map[string]Page{}}
	_ = fs.WalkDir(Files, ".", func(name string, d fs.DirEntry, err error) error { // an embed.FS can be read
		if source, readErr := Files.ReadFile(name); err == nil && readErr == nil && strings.HasSuffix(name, ".md") {
			m.add(name, source)
		}
		return nil
	})
	slices.SortStableFunc(m.sections, func(a, b section) int { return strings.Compare(a.page, b.page) })
	return m
})

// markdown is GitHub's, without the style attributes of its tables, which the page's policy forbids.
var markdown = goldmark.New(goldmark.WithExtensions(
	extension.Linkify, extension.Strikethrough, extension.TaskList, extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone)),
), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

var emptyHead = regexp.MustCompile(`<thead>\s*<tr>\s*(<td></td>\s*)+</tr>\s*</thead>\s*`)

// add reads one page.
func (m *Manual) add(name string, source []byte) {
	key := strings.TrimSuffix(name, ".md")
	if key == "README" {
		key = ""
	}
	root := markdown.Parser().Parse(text.NewReader(source))
	var one Page
	at := section{page: key}
	end := func() {
		if at.words != "" {
			at.lower = strings.ToLower(at.words)
			m.sections = append(m.sections, at)
		}
	}
	for node := root.FirstChild(); node != nil; {
		next := node.NextSibling()
		heading, isHeading := node.(*ast.Heading)
		switch {
		case isHeading && heading.Level == 1 && one.Title == "":
			one.Title = plain(heading, source)
			root.RemoveChild(root, heading) // the frame of the page has it
			at.title, at.Title, at.words = one.Title, one.Title, one.Title
		case isHeading:
			end()
			id, _ := heading.AttributeString("id")
			anchor, _ := id.([]byte)
			at.Part = Part{Title: plain(heading, source), Anchor: string(anchor)}
			at.words = at.Title
			if heading.Level == 2 {
				one.Parts = append(one.Parts, at.Part)
			}
		default:
			at.words += "\n" + plain(node, source)
		}
		node = next
	}
	end()
	relink(root, path.Dir(name))
	var out bytes.Buffer
	if err := markdown.Renderer().Render(&out, source, root); err != nil {
		return // cannot happen: a bytes.Buffer takes everything
	}
	// Cells without words head nothing, and a row of them is left out: readers of screens would say "blank" for each.
	page := emptyHead.ReplaceAllString(strings.ReplaceAll(out.String(), "<th></th>", "<td></td>"), "")
	// What is wider than the page is scrolled by keys, too.
	one.Text = template.HTML(strings.NewReplacer("<pre>", `<pre tabindex="0">`, "<table>", `<table tabindex="0">`).Replace(page)) // #nosec G203 -- of a file of the source, whose HTML is left out
	m.Pages[key] = one
}

// plain is the text of a node and of all below it.
func plain(node ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the walker returns no error
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				out.Write(n.Segment.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					out.WriteByte(' ')
				}
			}
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			if entering {
				for i := range n.Lines().Len() {
					line := n.Lines().At(i)
					out.Write(line.Value(source))
				}
			}
		default:
			if !entering && n.Type() == ast.TypeBlock {
				out.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(out.String())
}

// relink has links between pages lead to where they are shown, and takes off links to other files of the repository.
func relink(root ast.Node, dir string) {
	var outside []*ast.Link
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the walker returns no error
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Image:
			n.Destination = []byte(Base + path.Join(dir, string(n.Destination)))
		case *ast.Link:
			to := string(n.Destination)
			if strings.HasPrefix(to, "#") || strings.Contains(to, "://") {
				break
			}
			file, anchor, _ := strings.Cut(to, "#")
			full := path.Join("docs", dir, file)
			if anchor != "" {
				full += "#" + anchor
			}
			if shown := Shown(full); shown != "" {
				n.Destination = []byte(shown)
			} else {
				outside = append(outside, n)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, link := range outside {
		parent := link.Parent()
		for child := link.FirstChild(); child != nil; {
			next := child.NextSibling()
			parent.InsertBefore(parent, link, child)
			child = next
		}
		parent.RemoveChild(parent, link)
	}
}
