// Package steve is the form of /v1: Kubernetes objects in lists that can be filtered,
// sorted and paged, with links and a computed state. It knows nothing of what the
// objects mean and has no store.
//
// Wire source: rancher/steve README.md, rancher/apiserver README.md.
package steve

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Object is one Kubernetes object: the generic form of its JSON.
type Object map[string]any

// At is the value at a path of keys joined by dots: metadata.name. A key that holds
// dots stands in brackets: metadata.labels[kubernetes.io/arch]. Lists are searched: the
// result has the value of every item.
func (o Object) At(path string) []string {
	var found []string
	collect(map[string]any(o), split(path), &found)
	return found
}

func split(path string) []string {
	var keys []string
	for path != "" {
		if inner, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]"); ok && strings.HasPrefix(path, "[") {
			keys, path = append(keys, inner), strings.TrimPrefix(rest, ".")
			continue
		}
		i := strings.IndexAny(path, ".[")
		if i < 0 {
			return append(keys, path)
		}
		if i == 0 && path[0] == '[' { // a bracket that is never closed
			return append(keys, path)
		}
		keys = append(keys, path[:i])
		path = strings.TrimPrefix(path[i:], ".")
	}
	return keys
}

func collect(v any, keys []string, found *[]string) {
	switch x := v.(type) {
	case map[string]any:
		if len(keys) > 0 {
			collect(x[keys[0]], keys[1:], found)
		}
	case map[string]string:
		if len(keys) == 1 {
			if text, ok := x[keys[0]]; ok {
				*found = append(*found, text)
			}
		}
	case []any:
		for _, item := range x {
			collect(item, keys, found)
		}
	case nil:
	default:
		if len(keys) == 0 {
			*found = append(*found, fmt.Sprint(x))
		}
	}
}

func (o Object) text(path string) string {
	if found := o.At(path); len(found) > 0 {
		return found[0]
	}
	return ""
}

// Page is the part of a list that one answer holds.
type Page struct {
	Objects []Object
	// Count is how many passed the filters, Pages how many pages of the asked size they are.
	Count, Pages int
	// Continue is the token for the rest, "" when there is none.
	Continue string
}

// Select filters, sorts and cuts a list as the query asks. The objects come in the order
// of their ids, and so they stay where nothing else was asked for. What is not understood
// is ignored, as clients of the other API send their parameters here too.
func Select(all []Object, query url.Values) Page {
	objects := slices.DeleteFunc(slices.Clone(all), func(o Object) bool {
		return slices.ContainsFunc(query["filter"], func(f string) bool { return !matches(o, f) })
	})
	order(objects, query.Get("sort"))
	page := Page{Count: len(objects), Pages: 1}
	start := 0
	if n, err := strconv.Atoi(query.Get("continue")); err == nil && n > 0 {
		start = min(n, len(objects))
	}
	objects = objects[start:]
	limit, size := positive(query.Get("limit")), positive(query.Get("pagesize"))
	if query.Get("pagesize") != "" && size < math.MaxInt {
		page.Pages = (page.Count + size - 1) / size
		first := min(len(objects), (max(1, number(query.Get("page")))-1)*size)
		objects = objects[first:]
		objects = objects[:min(len(objects), size)]
	}
	if limit < len(objects) {
		objects = objects[:limit]
		page.Continue = strconv.Itoa(start + limit)
	}
	page.Objects = objects
	return page
}

// maxPage keeps products of page numbers and sizes within an int.
const maxPage = 1 << 20

// positive is a number greater than 0; anything else means no limit.
func positive(text string) int {
	if n := number(text); n > 0 {
		return n
	}
	return math.MaxInt
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return min(n, maxPage)
}

// matches is one filter: alternatives joined by commas, each field=value or
// field!=value. A value in single quotes is matched as a whole, any other as a part.
func matches(o Object, filter string) bool {
	understood := false
	for one := range strings.SplitSeq(filter, ",") {
		path, value, ok := strings.Cut(one, "=")
		if !ok {
			continue
		}
		understood = true
		path, negated := strings.CutSuffix(path, "!")
		exact := len(value) >= 2 && value[0] == '\'' && value[len(value)-1] == '\''
		if exact || len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		found := slices.ContainsFunc(o.At(path), func(text string) bool {
			return text == value || !exact && strings.Contains(text, value)
		})
		if found != negated {
			return true
		}
	}
	return !understood
}

func order(objects []Object, fields string) {
	if fields == "" {
		return
	}
	slices.SortStableFunc(objects, func(a, b Object) int {
		for field := range strings.SplitSeq(fields, ",") {
			path, descending := strings.CutPrefix(field, "-")
			c := cmp.Compare(a.text(path), b.text(path))
			if descending {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
}

// Without leaves out the fields whose paths the query names in exclude.
func Without(o Object, query url.Values) Object {
	if len(query["exclude"]) == 0 {
		return o
	}
	left := clone(o)
	for _, path := range query["exclude"] {
		keys := split(path)
		m := map[string]any(left)
		for i, key := range keys {
			if i == len(keys)-1 {
				delete(m, key)
				break
			}
			next, ok := m[key].(map[string]any)
			if !ok {
				break
			}
			copied := map[string]any(clone(next))
			m[key], m = copied, copied
		}
	}
	return left
}

func clone(o map[string]any) Object {
	copied := make(Object, len(o))
	maps.Copy(copied, o)
	return copied
}
