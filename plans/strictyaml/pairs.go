// Lists and mappings, with what is merged into them.

package strictyaml

import (
	"fmt"
	"maps"
	"reflect"

	"gopkg.in/yaml.v3"
)

func (d *decoder) mapping(where *at, n *yaml.Node, v reflect.Value) {
	m := reflect.MakeMap(v.Type())
	d.pairs(where, n, func(key string, _, val *yaml.Node) {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(where.key(key), val, item)
		m.SetMapIndex(reflect.ValueOf(key), item)
	})
	v.Set(m)
}

func (d *decoder) list(where *at, n *yaml.Node, v reflect.Value) {
	if n.Kind != yaml.SequenceNode || n.ShortTag() != "!!seq" {
		d.wrongType(where, n, "a list", "")
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.value(where.index(i), item, list.Index(i))
	}
	v.Set(list)
}

// pairs walks a mapping and refuses repeated keys and keys that are not plain text.
func (d *decoder) pairs(where *at, n *yaml.Node, each func(key string, k, val *yaml.Node)) {
	if n.Kind != yaml.MappingNode || n.ShortTag() != "!!map" {
		d.wrongType(where, n, "a mapping", "")
		return
	}
	d.unseen(where, n, map[string]int{}, each)
}

// unseen visits the pairs of a mapping, and of those that it merges, except for the keys that
// were there before. Its own keys then were, too.
func (d *decoder) unseen(where *at, n *yaml.Node, before map[string]int, each func(key string, k, val *yaml.Node)) {
	seen := map[string]int{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content) && len(d.errs) < maxErrors; i += 2 {
		k, val := n.Content[i], n.Content[i+1]
		if k.Tag == "!!merge" && d.MergeKeys {
			merged = append(merged, val)
			continue
		}
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
			e := Error{Path: where.String(), In: where.String(), Kind: BadKey, Reason: "has a key that is not plain text; write the fields out"}
			if k.Tag == "!!merge" {
				e.Kind = Merge
			}
			d.add(e, k)
			continue
		}
		if first, ok := seen[k.Value]; ok {
			d.add(Error{
				Path: where.key(k.Value).String(), In: where.String(), Kind: Repeated, Key: cut(k.Value),
				Reason: fmt.Sprintf("stands here a second time, first on line %d", first),
			}, k)
			continue
		}
		seen[k.Value] = k.Line
		if _, ok := before[k.Value]; !ok {
			each(k.Value, k, val)
		}
	}
	maps.Copy(before, seen)
	for _, from := range merged {
		d.merge(where, from, before, each)
	}
}

// merge visits what "<<" names: a mapping, or a list of them, the first of which wins.
func (d *decoder) merge(where *at, from *yaml.Node, before map[string]int, each func(key string, k, val *yaml.Node)) {
	if from.Kind == yaml.AliasNode {
		from = from.Alias
	}
	switch from.Kind {
	case yaml.MappingNode:
		d.unseen(where, from, before, each)
	case yaml.SequenceNode:
		for _, item := range from.Content {
			d.merge(where, item, before, each)
		}
	default:
		d.wrongType(where, from, "a mapping", "")
	}
}
