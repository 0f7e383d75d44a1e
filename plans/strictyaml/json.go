package strictyaml

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// fromJSON makes of valid JSON what the parser makes of YAML. YAML's parser is not asked:
// it refuses tabs and reads \ud83d\ude00 as two broken characters.
func fromJSON(source Source, text []byte) (*yaml.Node, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	r := jsonReader{dec: dec, text: text, line: 1, depth: source.Limits.Depth, most: source.Limits.Depth}
	root, err := r.value()
	if err != nil {
		return nil, Errors{{File: source.File, Line: r.line, Kind: Limit, Reason: err.Error()}}
	}
	return root, nil
}

type jsonReader struct {
	dec   *json.Decoder
	text  []byte
	read  int // of text, up to where lines are counted
	line  int
	depth int // still allowed
	most  int // allowed at first
}

func (r *jsonReader) value() (*yaml.Node, error) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	end := int(r.dec.InputOffset())
	r.line += bytes.Count(r.text[r.read:end], []byte("\n"))
	r.read = end
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: r.line}
	switch t := token.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		if t == '[' {
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		}
		if r.depth--; r.depth < 0 {
			return nil, fmt.Errorf("mappings and lists stand more than %d deep in one another", r.most)
		}
		for r.dec.More() {
			child, err := r.value()
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		_, err = r.dec.Token() // the end
		r.depth++
		return n, err
	case string:
		n.Tag, n.Value, n.Style = "!!str", t, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = "!!int", t.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", fmt.Sprint(t)
	case nil:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}
