// The envelope of a list.

package norman

import (
	"cmp"
	"net/url"
	"strings"
)

// List is one request for a list.
type List struct {
	URLs   URLs
	Values url.Values // the request's query
	// Self is the URL of the list without its query; "" means the collection of the type.
	Self string
	// Creates says that the caller may POST here.
	Creates bool
	// Actions of the collection that the caller may use.
	Actions []string
	// Show presents one object for the caller.
	Show func(Object) map[string]any
}

// Collection is the page of all visible objects that the request asks for, in its envelope.
func (s Schema) Collection(all []Object, l List) map[string]any {
	self := cmp.Or(l.Self, l.URLs.Collection(s))
	q := s.ParseQuery(l.Values)
	p := s.selectPage(all, q)
	data := make([]map[string]any, 0, len(p.items))
	for _, o := range p.items {
		data = append(data, l.Show(o))
	}
	actions := map[string]string{}
	for _, name := range l.Actions {
		actions[name] = self + "?action=" + name
	}
	answer := map[string]any{
		"type": "collection", "resourceType": s.ID, "links": map[string]string{"self": self}, "actions": actions,
		"pagination": p.document(self, l.Values, q.Limit), "sort": s.order(self, l.Values, q), "filters": s.filters(q), "data": data,
	}
	if l.Creates {
		answer["createTypes"] = map[string]string{s.ID: self}
	}
	return answer
}

func (p page) document(self string, values url.Values, limit int) map[string]any {
	d := map[string]any{"limit": limit, "total": p.total}
	if !p.partial {
		return d
	}
	d["partial"] = true
	if p.total == 0 || limit == 0 {
		return d
	}
	d["first"], d["last"] = with(self, values, "marker", p.first), with(self, values, "marker", p.last)
	if p.hasPrevious {
		d["previous"] = with(self, values, "marker", p.previous)
	}
	if p.hasNext {
		d["next"], d["marker"] = with(self, values, "marker", p.next), p.next
	}
	return d
}

func (s Schema) order(self string, values url.Values, q Query) map[string]any {
	order, reverse := "asc", "desc"
	if q.Descending {
		order, reverse = reverse, order
	}
	links := map[string]string{}
	for name, f := range s.Fields {
		if f.filterable() {
			links[name] = with(self, values, "sort", name)
		}
	}
	d := map[string]any{"order": order, "reverse": with(self, values, "order", reverse), "links": links}
	if q.Sort != "" {
		d["name"] = q.Sort
	}
	return d
}

// filters has one key for each field that can be filtered, null where none is used.
func (s Schema) filters(q Query) map[string]any {
	d := map[string]any{}
	for name, f := range s.Fields {
		if f.filterable() {
			d[name] = nil
		}
	}
	for _, c := range q.Conditions {
		used, _ := d[c.Field].([]map[string]string)
		for _, v := range c.Values {
			used = append(used, map[string]string{"modifier": c.Modifier, "value": v})
		}
		d[c.Field] = used
	}
	return d
}

// with is the URL with one parameter of its query replaced. A new order starts on the first page.
func with(self string, values url.Values, key, value string) string {
	changed := url.Values{}
	for k, v := range values {
		if k != "marker" && !strings.EqualFold(k, key) {
			changed[k] = v
		}
	}
	changed.Set(key, value)
	return self + "?" + changed.Encode()
}
