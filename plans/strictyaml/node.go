package strictyaml

import (
	"fmt"
	"regexp"
	"strconv"

	"gopkg.in/yaml.v3"
)

// maxKey bounds a key that a walk by hand takes, in bytes.
const maxKey = 1024

// Node is a place in a document, for readers that walk it by hand: where the order of
// keys counts, or "<<" is supported. Its faults repeat no values.
type Node struct {
	Path string // mirrors[docker.io].endpoint[0]
	yaml *yaml.Node
}

// Readers read the values of a mapping, by key.
type Readers map[string]func(*Node) error

// Root is the document's value.
func (d *Document) Root() *Node { return (&Node{yaml: d.root}).resolved() }

// resolved follows an alias; Read has made sure that it ends.
func (n *Node) resolved() *Node {
	if n.yaml.Kind == yaml.AliasNode {
		return &Node{yaml: n.yaml.Alias, Path: n.Path}
	}
	return n
}

func (n *Node) child(y *yaml.Node, path string) *Node {
	return (&Node{yaml: y, Path: path}).resolved()
}

// Line is the line of the value, counted from 1.
func (n *Node) Line() int { return n.yaml.Line }

// Fault is an error at this place: "line 3: mirrors[a]: reason".
func (n *Node) Fault(format string, args ...any) error {
	where := fmt.Sprintf("line %d: ", n.yaml.Line)
	if n.Path != "" {
		where += n.Path + ": "
	}
	return fmt.Errorf(where+"%w", fmt.Errorf(format, args...))
}

// Empty says whether there is nothing.
func (n *Node) Empty() bool { return n.yaml.Kind == 0 || isNull(n.yaml) }

// Text is the value of a scalar as it is written; of none it is empty. Another kind of value is an error with its line.
func (n *Node) Text() (string, error) {
	if n.Empty() {
		return "", nil
	}
	if n.yaml.Kind != yaml.ScalarNode {
		return "", n.Fault("a text is expected")
	}
	return n.yaml.Value, nil
}

// TextInto reads a text into a variable.
func TextInto(into *string) func(*Node) error {
	return func(n *Node) (err error) {
		*into, err = n.Text()
		return err
	}
}

// Bool is true or false, or one of the words of YAML 1.1; of none it is false. Another value is an error with its line.
func (n *Node) Bool() (bool, error) {
	if n.Empty() {
		return false, nil
	}
	value, ok := truth(n.yaml, true)
	if !ok {
		return false, n.Fault("true or false is expected")
	}
	return value, nil
}

// Pairs visits a mapping in the order of the file, and what "<<" merges into it last. The
// key is a short text; its path is that of the value. It returns the errors of visit together, and an *Error for a key that is given twice or is no
// text.
func (n *Node) Pairs(visit func(key string, at, value *Node) error) error {
	return n.pairsBut(map[string]bool{}, visit)
}

// pairsBut leaves out the keys that were seen.
func (n *Node) pairsBut(seen map[string]bool, visit func(key string, at, value *Node) error) error {
	if n.Empty() {
		return nil
	}
	if n.yaml.Kind != yaml.MappingNode {
		return n.Fault("a mapping is expected")
	}
	var merged []*yaml.Node
	own := map[string]int{}
	for i := 0; i+1 < len(n.yaml.Content); i += 2 {
		k, v := n.yaml.Content[i], n.yaml.Content[i+1]
		if k.Tag == "!!merge" {
			merged = append(merged, v)
			continue
		}
		key := n.child(k, n.Path)
		name := key.yaml.Value
		if key.yaml.Kind != yaml.ScalarNode || len(name) > maxKey {
			return key.Fault("a short text is expected as a key")
		}
		if line, twice := own[name]; twice {
			return key.Fault("%s is there twice, first in line %d", name, line)
		}
		own[name] = k.Line
		if seen[name] {
			continue
		}
		seen[name] = true
		value := n.child(v, n.below(name))
		key.Path = value.Path
		if err := visit(name, key, value); err != nil {
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
func (n *Node) merge(m *yaml.Node, seen map[string]bool, visit func(key string, at, value *Node) error) error {
	from := n.child(m, n.Path)
	if from.yaml.Kind != yaml.SequenceNode {
		return from.pairsBut(seen, visit)
	}
	for _, item := range from.yaml.Content {
		if err := n.child(item, n.Path).pairsBut(seen, visit); err != nil {
			return err
		}
	}
	return nil
}

// below is the path of a key of the mapping.
func (n *Node) below(name string) string {
	if n.Path == "" {
		return name
	}
	if bare.MatchString(name) {
		return n.Path + "." + name
	}
	return n.Path + "[" + name + "]"
}

var bare = regexp.MustCompile(`^[A-Za-z_]+$`)

// Fields reads a mapping whose keys have their readers. Other keys are ignored: they
// belong to other software. Errors name file, line and path.
func (n *Node) Fields(readers Readers) error {
	return n.Pairs(func(key string, _, value *Node) error {
		if read, ok := readers[key]; ok {
			return read(value)
		}
		return nil
	})
}

// OnlyFields is Fields for a mapping in which other keys are mistakes. Errors name file, line and path.
func (n *Node) OnlyFields(readers Readers) error {
	return n.Pairs(func(key string, at, value *Node) error {
		if read, ok := readers[key]; ok {
			return read(value)
		}
		return at.Fault("there is no such key")
	})
}

// Entries reads a mapping of names to values of one kind. Errors name file, line and path.
func Entries[V any](n *Node, all *map[string]V, parse func(*Node) (V, error)) error {
	*all = map[string]V{}
	return n.Pairs(func(key string, _, value *Node) error {
		value.Path = n.Path + "[" + key + "]"
		v, err := parse(value)
		(*all)[key] = v
		return err
	})
}

// Items visits a list of at most so many values. More are an error with the line.
func (n *Node) Items(most int, visit func(*Node) error) error {
	if n.Empty() {
		return nil
	}
	if n.yaml.Kind != yaml.SequenceNode {
		return n.Fault("a list is expected")
	}
	if len(n.yaml.Content) > most {
		return n.Fault("the list has more than %d entries", most)
	}
	for i, y := range n.yaml.Content {
		if err := visit(n.child(y, n.Path+"["+strconv.Itoa(i)+"]")); err != nil {
			return err
		}
	}
	return nil
}
