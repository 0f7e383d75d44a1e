// Reading YAML by hand, so that a fault names path and line, says what was expected, and
// repeats no value: what is in the wrong place may be a password.

package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"gopkg.in/yaml.v3"
)

const (
	lenient = false // unknown keys are somebody else's
	strict  = true  // unknown keys are mistakes
	// maxNodes bounds what aliases can make of a small file.
	maxNodes = 50_000
)

// node is a place in a document.
type node struct {
	yaml  *yaml.Node
	path  string
	file  string
	count *int // of nodes visited in the document
}

// reader takes one value.
type reader func(*node) error

var yamlLine = regexp.MustCompile(`line \d+`)

// document is the one document of a file.
func document(file string, b []byte) (*node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(b))
	var top yaml.Node
	if err := decoder.Decode(&top); err != nil && !errors.Is(err, io.EOF) {
		if line := yamlLine.FindString(err.Error()); line != "" {
			return nil, fmt.Errorf("%s: it is not YAML", line)
		}
		return nil, errors.New("it is not YAML")
	}
	n := &node{yaml: &top, file: file, count: new(int)}
	if top.Kind == yaml.DocumentNode {
		n.yaml = top.Content[0]
	}
	var more yaml.Node
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line %d: a second document begins, where one is expected", max(more.Line, 1))
	}
	return n.resolved()
}

// resolved follows an alias.
func (n *node) resolved() (*node, error) {
	if n.yaml.Kind == yaml.AliasNode {
		n = &node{yaml: n.yaml.Alias, path: n.path, file: n.file, count: n.count}
	}
	if *n.count++; *n.count > maxNodes {
		return nil, n.fault("the file has more than %d values, those of aliases counted each time", maxNodes)
	}
	return n, nil
}

func (n *node) fault(format string, args ...any) error {
	where := fmt.Sprintf("line %d: ", n.yaml.Line)
	if n.path != "" {
		where += n.path + ": "
	}
	return fmt.Errorf(where+"%w", fmt.Errorf(format, args...))
}

// empty says whether there is nothing.
func (n *node) empty() bool {
	return n.yaml.Kind == 0 || n.yaml.Kind == yaml.ScalarNode && n.yaml.Tag == "!!null"
}

func (n *node) child(y *yaml.Node, path string) (*node, error) {
	return (&node{yaml: y, path: path, file: n.file, count: n.count}).resolved()
}

// text is the value of a scalar; of none it is empty.
func (n *node) text() (string, error) {
	if n.empty() {
		return "", nil
	}
	if n.yaml.Kind != yaml.ScalarNode {
		return "", n.fault("a text is expected")
	}
	return n.yaml.Value, nil
}

func (n *node) boolean() (bool, error) {
	if n.empty() {
		return false, nil
	}
	var value bool
	if n.yaml.Kind != yaml.ScalarNode || n.yaml.Decode(&value) != nil {
		return false, n.fault("true or false is expected")
	}
	return value, nil
}

// pairs visits a mapping in the order of the file, and what is merged into it last.
func (n *node) pairs(visit func(key, value *node) error) error {
	return n.pairsBut(map[string]int{}, visit)
}

// pairsBut leaves out the keys that were seen, by line.
func (n *node) pairsBut(seen map[string]int, visit func(key, value *node) error) error {
	if n.empty() {
		return nil
	}
	if n.yaml.Kind != yaml.MappingNode {
		return n.fault("a mapping is expected")
	}
	var merged []*yaml.Node
	own := map[string]int{}
	for i := 0; i+1 < len(n.yaml.Content); i += 2 {
		k, v := n.yaml.Content[i], n.yaml.Content[i+1]
		if k.Tag == "!!merge" {
			merged = append(merged, v)
			continue
		}
		key, err := n.child(k, n.path)
		if err != nil {
			return err
		}
		if key.yaml.Kind != yaml.ScalarNode || len(key.yaml.Value) > maxPattern {
			return key.fault("a short text is expected as a key")
		}
		name := key.yaml.Value
		if line, twice := own[name]; twice {
			return key.fault("%s is there twice, first in line %d", name, line)
		}
		own[name] = k.Line
		if _, hidden := seen[name]; hidden {
			continue
		}
		seen[name] = k.Line
		value, err := n.child(v, n.below(name))
		if err != nil {
			return err
		}
		key.path = value.path
		if err := visit(key, value); err != nil {
			return err
		}
	}
	for _, m := range merged {
		if err := n.merge(m, seen, visit); err != nil {
			return err
		}
	}
	return nil
}

// merge visits what "<<" names: a mapping, or a list of them.
func (n *node) merge(m *yaml.Node, seen map[string]int, visit func(key, value *node) error) error {
	from, err := n.child(m, n.path)
	if err != nil {
		return err
	}
	if from.yaml.Kind != yaml.SequenceNode {
		return from.pairsBut(seen, visit)
	}
	for _, item := range from.yaml.Content {
		one, err := n.child(item, n.path)
		if err != nil {
			return err
		}
		if err := one.pairsBut(seen, visit); err != nil {
			return err
		}
	}
	return nil
}

// below is the path of a key of the mapping.
func (n *node) below(name string) string {
	if n.path == "" {
		return name
	}
	if bare.MatchString(name) {
		return n.path + "." + name
	}
	return n.path + "[" + name + "]"
}

var bare = regexp.MustCompile(`^[A-Za-z_]+$`)

// fields reads a mapping whose keys have their readers.
func (n *node) fields(onlyThese bool, readers map[string]reader) error {
	return n.pairs(func(key, value *node) error {
		read, ok := readers[key.yaml.Value]
		switch {
		case ok:
			return read(value)
		case onlyThese:
			return key.fault("there is no such key")
		}
		return nil
	})
}

// entries reads a mapping of names to values of one kind.
func entries[V any](n *node, all *map[string]V, parse func(*node) (V, error)) error {
	*all = map[string]V{}
	return n.pairs(func(key, value *node) error {
		value.path = n.path + "[" + key.yaml.Value + "]"
		v, err := parse(value)
		(*all)[key.yaml.Value] = v
		return err
	})
}

// items visits a list.
func (n *node) items(most int, visit func(*node) error) error {
	if n.empty() {
		return nil
	}
	if n.yaml.Kind != yaml.SequenceNode {
		return n.fault("a list is expected")
	}
	if len(n.yaml.Content) > most {
		return n.fault("the list has more than %d entries", most)
	}
	for i, y := range n.yaml.Content {
		item, err := n.child(y, n.path+"["+strconv.Itoa(i)+"]")
		if err != nil {
			return err
		}
		if err := visit(item); err != nil {
			return err
		}
	}
	return nil
}
