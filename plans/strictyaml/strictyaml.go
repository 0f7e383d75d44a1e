// Package strictyaml reads YAML and JSON from outside: cluster documents, plans dropped
// into a directory, registries.yaml, kubeconfigs. A text is bounded before anything of it
// is decoded: its bytes, its depth, its aliases, and what the aliases make of it. What is
// then read goes into structs that refuse everything they do not know (Document.Decode), or
// through a walk by hand (Document.Root); each error has the line and the field.
//
// yaml.v3 refuses unknown fields too, but names neither path nor reason, converts types,
// and follows aliases as far as they lead; encoding/json lets a repeated key win.
package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Kind is what is wrong, for callers that have words of their own for it.
type Kind int

const (
	Other    Kind = iota // the reason alone says it
	Syntax               // neither YAML nor JSON
	Limit                // more than Limits allow
	Unknown              // a key that no field has
	Repeated             // a key that is there twice in one mapping
	Merge                // "<<" where it is not supported
	BadKey               // a key that is not plain text
	Type                 // a value of another type than the field's
	Second               // a second document where one is expected
)

// Error is one thing that is wrong.
type Error struct {
	File   string `json:"file,omitempty"` // empty for text that came from elsewhere
	Path   string `json:"path"`           // spec.rkeConfig.etcd
	Line   int    `json:"line"`           // counted from 1; 0 when the whole document is meant
	Reason string `json:"reason"`

	Kind  Kind     `json:"-"`
	Key   string   `json:"-"` // of Unknown and Repeated
	In    string   `json:"-"` // the path of the mapping that the key is in
	Known []string `json:"-"` // of Unknown: the fields there are, sorted
	Got   string   `json:"-"` // of Type: "a mapping", "a list", "a single value"
	Want  string   `json:"-"` // of Type: "a mapping", "a list", "text", "true or false", "a number", "a whole number"
}

// Error is "FILE:3: a.b: reason", or "line 3: a.b: reason" where there is no file.
func (e Error) Error() string {
	s := ""
	switch {
	case e.File != "":
		s = fmt.Sprintf("%s:%d: ", e.File, max(e.Line, 1))
	case e.Line > 0:
		s = fmt.Sprintf("line %d: ", e.Line)
	}
	if e.Path != "" {
		s += e.Path + ": "
	}
	return s + e.Reason
}

// Errors is everything that is wrong, in the order of the text.
type Errors []Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Source is where a text is from and what is allowed of it.
type Source struct {
	// File is named in errors; empty for text that is in no file.
	File string
	// Private says that errors repeat no value of the text: what is in the wrong place may be a password.
	Private bool
	Limits  Limits
}

// Document is one document, whose aliases were followed once, within the limits.
type Document struct {
	source Source
	root   *yaml.Node
	begins int // the line of its "---", or of its content
}

// Read reads all documents of a text; empty ones are left out. The error is an Errors.
func Read(source Source, text []byte) ([]*Document, error) {
	source.Limits = source.Limits.orDefault()
	if len(text) > source.Limits.Bytes {
		return nil, Errors{{File: source.File, Kind: Limit, Reason: fmt.Sprintf("%d bytes are more than the %d allowed", len(text), source.Limits.Bytes)}}
	}
	bound := bounds{source: source}
	if isJSON(text) {
		root, err := fromJSON(source, text)
		if err != nil {
			return nil, err
		}
		return document(&bound, root, root.Line)
	}
	var all []*Document
	for dec := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var node yaml.Node
		err := dec.Decode(&node)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, Errors{syntax(source, err)}
		}
		if len(node.Content) == 0 || isNull(node.Content[0]) {
			continue
		}
		more, err := document(&bound, node.Content[0], node.Line)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
}

func document(bound *bounds, root *yaml.Node, begins int) ([]*Document, error) {
	if err := bound.check(root); err != nil {
		return nil, Errors{*err}
	}
	return []*Document{{source: bound.source, root: root, begins: begins}}, nil
}

// ReadOne reads a text of at most one document; without any the Document is Empty. The error is an Errors.
func ReadOne(source Source, text []byte) (*Document, error) {
	all, err := Read(source, text)
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return &Document{source: source, root: &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1}}, nil
	case len(all) > 1:
		return nil, Errors{{File: source.File, Line: max(all[1].begins, 1), Kind: Second, Reason: "a second document begins, where one is expected"}}
	}
	return all[0], nil
}

// Empty says whether there is nothing in the document.
func (d *Document) Empty() bool { return isNull(d.root) }

// Line is the line that the document's content begins in, counted from 1.
func (d *Document) Line() int { return max(d.root.Line, 1) }

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// isJSON says whether a text is one JSON object or list. Other flow mappings, such as
// {a: b}, are YAML.
func isJSON(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 0 && (text[0] == '{' || text[0] == '[') && json.Valid(text)
}

// place is how the parser begins its messages; it has no other way to give a line.
var place = regexp.MustCompile(`^(?:yaml: )?line ([0-9]{1,9}): `)

// syntax is an error of the parser. Of some faults it names the line before, and of faults
// in the first line none.
func syntax(source Source, err error) Error {
	e := Error{File: source.File, Line: 1, Kind: Syntax, Reason: "is not YAML"}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if found := place.FindStringSubmatch(text); found != nil {
		e.Line, _ = strconv.Atoi(found[1])
		e.Line = max(e.Line, 1)
		text = strings.TrimPrefix(text, found[0])
	}
	if !source.Private {
		e.Reason = "not YAML: " + text
	}
	return e
}
