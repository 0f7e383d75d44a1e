package strictyaml

import (
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// LineOf is the line of a field, or of the nearest one around it that stands in the text.
// Steps of the path are parted by dots; a key of a mapping may also stand in brackets, as
// in probes[web].httpGet, and an index of a list has to.
func (d *Document) LineOf(path string) int {
	line := d.Line()
	find(d.root, path, 0, &line, new(int))
	return line
}

// At is the value at a path, as LineOf names it, as a document of its own whose errors have the lines of this one.
// It is not ok when there is no such field.
func (d *Document) At(path string) (at *Document, ok bool) {
	n := d.root
	for step := range strings.SplitSeq(path, ".") {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		var next *yaml.Node
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				next = n.Content[i+1]
			}
		}
		if next == nil {
			return nil, false
		}
		n = next
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return &Document{source: d.source, root: n, begins: n.Line}, true
}

// Items are the values of the list at a path, as At gives them; none when there is no list.
func (d *Document) Items(path string) []*Document {
	at, ok := d.At(path)
	if !ok || at.root.Kind != yaml.SequenceNode {
		return nil
	}
	var all []*Document
	for _, n := range at.root.Content {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		all = append(all, &Document{source: d.source, root: n, begins: n.Line})
	}
	return all
}

// find walks as far into a value as the path leads and keeps the line of the deepest step.
// Keys may have dots in them, so that more than one way can fit.
func find(n *yaml.Node, path string, depth int, line, deepest *int) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if depth > *deepest {
		*deepest = depth
	}
	if path == "" {
		return
	}
	step := func(child *yaml.Node, rest string, at int) {
		if depth+1 > *deepest {
			*line, *deepest = at, depth+1
		}
		find(child, rest, depth+1, line, deepest)
	}
	path = strings.TrimPrefix(path, ".")
	if n.Kind == yaml.SequenceNode {
		index, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(index); ok && err == nil && i >= 0 && i < len(n.Content) {
			item := n.Content[i]
			if item.Kind == yaml.AliasNode {
				item = item.Alias
			}
			step(item, rest, item.Line)
		}
		return
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		for _, written := range []string{key.Value, "[" + key.Value + "]"} {
			rest, ok := strings.CutPrefix(path, written)
			if ok && key.Kind == yaml.ScalarNode && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				step(n.Content[i+1], rest, key.Line)
			}
		}
	}
}
