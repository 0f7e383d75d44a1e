package strictyaml

import (
	"fmt"
	"slices"
	"strconv"

	"gopkg.in/yaml.v3"
)

// Limits bound a text. What is 0 has the default.
type Limits struct {
	Bytes   int // of the text; default 2 MiB. The parser takes a hundred times as much memory
	Depth   int // of mappings and lists in one another; default 100
	Aliases int // default 1,000
	// Values and Expanded bound what is left once aliases are followed, each as often as it
	// is used: values with their keys (default 100,000), and bytes of text (default 4 MiB).
	Values   int
	Expanded int
}

func (l Limits) orDefault() Limits {
	for _, one := range []struct {
		limit  *int
		absent int
	}{{&l.Bytes, 2 << 20}, {&l.Depth, 100}, {&l.Aliases, 1000}, {&l.Values, 100_000}, {&l.Expanded, 4 << 20}} {
		if *one.limit == 0 {
			*one.limit = one.absent
		}
	}
	return l
}

// bounds counts the documents of one text.
type bounds struct {
	source                    Source
	aliases, values, expanded int
	following                 int          // aliases around the node
	open                      []*yaml.Node // mappings and lists around the node
	path                      []string     // of the node, by key and index
}

// check walks a document as its readers will. It ends at the first limit, so that it takes
// no longer than the limits allow, and at an alias inside of what it stands for.
func (b *bounds) check(n *yaml.Node) *Error {
	limits := b.source.Limits
	if n.Kind == yaml.AliasNode {
		if b.following == 0 {
			b.aliases++ // those inside of what an alias stands for are there once
		}
		if b.aliases > limits.Aliases {
			return b.fault(n, "the document has more than %d aliases", limits.Aliases)
		}
		if slices.Contains(b.open, n.Alias) {
			return b.fault(n, "the alias stands inside of what it repeats")
		}
		n = n.Alias
		b.following++
		defer func() { b.following-- }()
	}
	if b.values++; b.values > limits.Values {
		return b.fault(n, "the file has more than %d values, those of aliases counted each time", limits.Values)
	}
	if b.expanded += len(n.Value); b.expanded > limits.Expanded {
		return b.fault(n, "the file has more than %d bytes of text, that of aliases counted each time", limits.Expanded)
	}
	if n.Kind == yaml.ScalarNode {
		return nil
	}
	if len(b.open) >= limits.Depth {
		return b.fault(n, "mappings and lists stand more than %d deep in one another", limits.Depth)
	}
	b.open = append(b.open, n)
	defer func() { b.open = b.open[:len(b.open)-1] }()
	for i, child := range n.Content {
		step, isKey := "["+strconv.Itoa(i)+"]", false
		if n.Kind == yaml.MappingNode {
			isKey = i%2 == 0
			step = n.Content[i&^1].Value
		}
		if isKey {
			// A key's own path is that of its mapping.
			if err := b.check(child); err != nil {
				return err
			}
			continue
		}
		b.path = append(b.path, step)
		if err := b.check(child); err != nil {
			return err
		}
		b.path = b.path[:len(b.path)-1]
	}
	return nil
}

func (b *bounds) fault(n *yaml.Node, format string, args ...any) *Error {
	path := ""
	for _, step := range b.path {
		path = join(path, step)
		if len(path) > maxPath {
			path = path[:maxPath] + "…"
			break
		}
	}
	return &Error{File: b.source.File, Path: path, Line: max(n.Line, 1), Kind: Limit, Reason: fmt.Sprintf(format, args...)}
}
