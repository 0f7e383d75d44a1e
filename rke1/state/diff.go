// Comparing states by their keys: what an export changed, and what a newer program wrote.

package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Diff is where two states differ, as paths such as
// desiredState.certificatesBundle.kube-admin.config, sorted. Values, which may be secret, are not
// shown. An rke CLI that runs on an unchanged cluster changes kube-admin's certificate and kubeconfig alone.
// Its error is that of a state that cannot be encoded.
func Diff(a, b *State) ([]string, error) {
	left, err := tree(a)
	if err != nil {
		return nil, err
	}
	right, err := tree(b)
	if err != nil {
		return nil, err
	}
	return differences("", left, right), nil
}

// Unknown are the keys of a state's text that ask for something and that this program does not keep, sorted. A text that is no state is an error.
func Unknown(text []byte, s *State) ([]string, error) {
	given, err := generic(text)
	if err != nil {
		return nil, err
	}
	kept, err := tree(s)
	if err != nil {
		return nil, err
	}
	return lost("", given, kept), nil
}

func tree(s *State) (any, error) {
	b, err := Compact(s)
	if err != nil {
		return nil, err
	}
	return generic(b)
}

func generic(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("read the state again: %w", err)
	}
	return v, nil
}

func differences(path string, a, b any) []string {
	switch left := a.(type) {
	case map[string]any:
		if right, both := b.(map[string]any); both {
			var all []string
			keys := maps.Clone(left)
			maps.Copy(keys, right)
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				l, inLeft := left[key]
				r, inRight := right[key]
				if inLeft != inRight {
					all = append(all, join(path, key))
				} else {
					all = append(all, differences(join(path, key), l, r)...)
				}
			}
			return all
		}
	case []any:
		if right, both := b.([]any); both && len(left) == len(right) {
			var all []string
			for i := range left {
				all = append(all, differences(fmt.Sprintf("%s[%d]", path, i), left[i], right[i])...)
			}
			return all
		}
	}
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return []string{path}
}

// lost are the keys of given that kept lacks.
func lost(path string, given, kept any) []string {
	var all []string
	switch given := given.(type) {
	case map[string]any:
		kept, _ := kept.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(given)) {
			if _, there := kept[key]; there {
				all = append(all, lost(join(path, key), given[key], kept[key])...)
			} else if !nothing(given[key]) {
				all = append(all, join(path, key))
			}
		}
	case []any:
		kept, _ := kept.([]any)
		for i := range min(len(given), len(kept)) {
			all = append(all, lost(fmt.Sprintf("%s[%d]", path, i), given[i], kept[i])...)
		}
	}
	return all
}

// nothing says whether a value asks for nothing.
func nothing(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case json.Number:
		return v == "0"
	case map[string]any:
		for _, inner := range v {
			if !nothing(inner) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return false
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
