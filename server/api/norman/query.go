// List parameters: filters, order and pages.

package norman

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limits of pages. A client that asks for more, or for -1, gets the maximum.
const (
	defaultLimit = 1000
	maxLimit     = 10000
)

// Condition is one filter of a list.
type Condition struct {
	Field    string
	Modifier string // eq, ne, in or notin
	Values   []string
}

// Query is what a list request asks for.
type Query struct {
	Conditions []Condition
	Sort       string // field, or "" for the id
	Descending bool
	Limit      int
	Marker     string // id of the first item wanted, or ""
}

// ParseQuery reads list parameters. What the type does not know is ignored: the
// peers' clients send filters that never had an effect.
func (s Schema) ParseQuery(values url.Values) Query {
	q := Query{Limit: defaultLimit, Marker: values.Get("marker"), Descending: values.Get("order") == "desc"}
	if n, err := strconv.Atoi(values.Get("limit")); err == nil {
		q.Limit = n
		if n < 0 || n > maxLimit {
			q.Limit = maxLimit
		}
	}
	if name := values.Get("sort"); name != "" {
		if s.Fields[name].filterable() {
			q.Sort = name
		}
	}
	for key, wanted := range values {
		name, modifier := key, "eq"
		f, ok := s.Fields[name]
		if !ok {
			i := strings.LastIndexByte(key, '_')
			if i <= 0 {
				continue
			}
			name, modifier = key[:i], key[i+1:]
			if f, ok = s.Fields[name]; !ok {
				continue
			}
		}
		if f.filterable() && slices.Contains(f.modifiers(), modifier) {
			q.Conditions = append(q.Conditions, Condition{Field: name, Modifier: modifier, Values: wanted})
		}
	}
	slices.SortFunc(q.Conditions, func(a, b Condition) int {
		return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Modifier, b.Modifier))
	})
	return q
}

// Match says whether the object passes all conditions. Repeated eq means any of them,
// repeated ne none of them.
func (s Schema) Match(o Object, conditions []Condition) bool {
	for _, c := range conditions {
		wanted := c.Values
		if c.Modifier == "in" || c.Modifier == "notin" {
			wanted = strings.Split(strings.Join(wanted, ","), ",")
		}
		fields := []string{c.Field}
		if c.Modifier == "eq" && s.Aliases[c.Field] != nil {
			fields = s.Aliases[c.Field]
		}
		found := slices.ContainsFunc(fields, func(name string) bool { return slices.Contains(wanted, s.text(o, name)) })
		if found != (c.Modifier == "eq" || c.Modifier == "in") {
			return false
		}
	}
	return true
}

// text is the text form of a field, by which lists are filtered and sorted.
func (s Schema) text(o Object, name string) string {
	if name == "id" {
		return o.ID
	}
	value, ok := o.Fields[name]
	if !ok || value == nil {
		value = s.Fields[name].Default
	}
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case time.Time:
		if v.IsZero() {
			return ""
		}
		return v.UTC().Format(time.RFC3339)
	default:
		return fmt.Sprint(v)
	}
}

// page is the part of a list that one answer holds.
type page struct {
	items []Object
	total int
	// first, previous, next and last are markers; partial says that the list was cut.
	partial                     bool
	first, previous, next, last string
	hasPrevious, hasNext        bool
}

// selectPage filters, sorts and cuts a list. The order is stable: by the field asked for, then by id.
func (s Schema) selectPage(all []Object, q Query) page {
	var items []Object
	for _, o := range all {
		if s.Match(o, q.Conditions) {
			items = append(items, o)
		}
	}
	slices.SortFunc(items, func(a, b Object) int {
		c := 0
		if q.Sort != "" {
			c = strings.Compare(s.text(a, q.Sort), s.text(b, q.Sort))
		}
		c = cmp.Or(c, strings.Compare(a.ID, b.ID))
		if q.Descending {
			return -c
		}
		return c
	})
	p := page{items: items, total: len(items)}
	if q.Limit == 0 || len(items) == 0 {
		p.items = items[:0]
		p.partial = len(items) > 0
		return p
	}
	start := max(0, slices.IndexFunc(items, func(o Object) bool { return o.ID == q.Marker }))
	end := min(len(items), start+q.Limit)
	p.items = items[start:end]
	p.partial = start > 0 || end < len(items)
	p.first = items[0].ID
	p.last = items[(len(items)-1)/q.Limit*q.Limit].ID
	if p.hasPrevious = start > 0; p.hasPrevious {
		p.previous = items[max(0, start-q.Limit)].ID
	}
	if p.hasNext = end < len(items); p.hasNext {
		p.next = items[end].ID
	}
	return p
}
