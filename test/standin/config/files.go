// The files and the command line: many sources become one value for each key.

package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a configuration file; real ones are a few hundred bytes.
const maxFile = 1 << 20

// setting is what was given for one key: one value, or a list of them.
type setting struct {
	values []string
	list   bool
	from   string // where the last value was written, for errors: "/path line 3"
}

func (s setting) last() string {
	if len(s.values) == 0 {
		return ""
	}
	return s.values[len(s.values)-1]
}

type settings map[string]setting

func (s settings) names() []string { return slices.Sorted(maps.Keys(s)) }

func (s settings) take(key string) (setting, bool) {
	v, ok := s[key]
	delete(s, key)
	return v, ok
}

// readFiles merges file and the *.yaml and *.yml files in file.d, in the order of their names: the last file that has
// a key wins; a key written "key+" adds to what the files before it gave.
func readFiles(file string) (settings, error) {
	merged := settings{}
	names := []string{file}
	entries, err := os.ReadDir(file + ".d")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the drop-in directory: %w", err)
	}
	for _, e := range entries { // ReadDir sorts by name
		if ext := filepath.Ext(e.Name()); ext == ".yaml" || ext == ".yml" {
			names = append(names, filepath.Join(file+".d", e.Name()))
		}
	}
	for _, name := range names {
		one, err := readFile(name)
		if errors.Is(err, fs.ErrNotExist) && name == file {
			continue // the main file may be missing; a drop-in that dangles may not
		}
		if err != nil {
			return nil, err
		}
		for _, key := range one.names() {
			merged.merge(key, one[key])
		}
	}
	return merged, nil
}

func (s settings) merge(key string, given setting) {
	base, add := strings.CutSuffix(key, "+")
	if before, ok := s[base]; add && ok {
		given.values = append(slices.Clone(before.values), given.values...)
	}
	if add {
		given.list = true
	}
	s[base] = given
}

func readFile(path string) (settings, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dec := yaml.NewDecoder(io.LimitReader(f, maxFile))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return settings{}, nil // an empty file
	} else if err != nil {
		return nil, fmt.Errorf("%s: not YAML or JSON: %w", path, err)
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: one document was expected, found more", path)
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return settings{}, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s line %d: a mapping of keys to values was expected", path, root.Line)
	}
	out := settings{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		from := fmt.Sprintf("%s line %d", path, key.Line)
		if _, twice := out[key.Value]; twice {
			return nil, fmt.Errorf("%s: key %q is given twice in one file", from, key.Value)
		}
		given, err := nodeValues(value)
		if err != nil {
			return nil, fmt.Errorf("%s: key %q: %w", from, key.Value, err)
		}
		if given != nil {
			given.from = from
			out[key.Value] = *given
		}
	}
	return out, nil
}

// nodeValues turns a YAML value into texts; nil for null, which counts as not given.
func nodeValues(n *yaml.Node) (*setting, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return nil, nil
		}
		return &setting{values: []string{n.Value}}, nil
	case yaml.SequenceNode:
		s := &setting{list: true}
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("line %d: a list of plain values was expected", item.Line)
			}
			s.values = append(s.values, item.Value)
		}
		return s, nil
	default:
		return nil, fmt.Errorf("a plain value or a list of them was expected, found a mapping")
	}
}

// parseFlags reads "--key=value", "--key value" and "--switch". A flag given more than once makes a list.
func parseFlags(args []string) (settings, error) {
	out := settings{}
	table := keys()
	for i := 0; i < len(args); i++ {
		name, ok := strings.CutPrefix(args[i], "-")
		name = strings.TrimPrefix(name, "-")
		if !ok || name == "" {
			return nil, fmt.Errorf("command line: unexpected argument %q", args[i])
		}
		name, value, has := strings.Cut(name, "=")
		if long, short := aliases()[name]; short {
			name = long
		}
		if !has {
			switch {
			case table[name].kind == boolean:
				value = "true"
			case i+1 < len(args):
				i++
				value = args[i]
			default:
				return nil, fmt.Errorf("command line: flag --%s needs a value", name)
			}
		}
		s := out[name]
		s.values = append(s.values, value)
		s.list = len(s.values) > 1
		s.from = "command line"
		out[name] = s
	}
	return out, nil
}

func aliases() map[string]string {
	return map[string]string{"c": "config", "d": "data-dir", "t": "token", "o": "write-kubeconfig", "i": "node-ip", "s": "server"}
}
