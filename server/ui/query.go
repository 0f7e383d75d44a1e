// What a page is asked for behind its path: filters, order, and which part of a long list.

package ui

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Query is the path of a page and what follows it.
type Query struct {
	Path string
	url.Values
}

// With is the address of the same page with other values, given as pairs; empty ones are left out, and the list begins
// anew.
func (q Query) With(pairs ...string) string {
	values := url.Values{}
	for name, given := range q.Values {
		if name != "page" && name != "seen" && name != "done" && len(given) > 0 && given[0] != "" {
			values.Set(name, given[0])
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if values.Del(pairs[i]); pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return q.Path
	}
	return q.Path + "?" + values.Encode()
}

// perPage is how many rows a part of a list has.
const perPage = 100

// Part is one part of a list.
type Part struct {
	// First and Last are the numbers of its rows, from 1; Total is how many rows there are.
	First, Last, Total int
	// Before and After are the addresses of its neighbours; empty for none.
	Before, After string
}

// partOf is the part of a list that the query asks for; one that is not there is the nearest.
func partOf[T any](all []T, q Query) ([]T, Part) {
	page, err := strconv.Atoi(q.Get("page"))
	last := max(1, (len(all)+perPage-1)/perPage)
	if err != nil || page < 1 {
		page = 1
	}
	page = min(page, last)
	from, to := (page-1)*perPage, min(page*perPage, len(all))
	p := Part{First: min(from+1, len(all)), Last: to, Total: len(all)}
	if page > 1 {
		p.Before = q.With("page", strconv.Itoa(page-1))
	}
	if page < last {
		p.After = q.With("page", strconv.Itoa(page+1))
	}
	return all[from:to], p
}

// Column is the head of a column by which a list can be sorted.
type Column struct {
	Title, URL string
	// Order is ascending, descending, or empty for a column that the list is not sorted by.
	Order string
	// Number columns are set to the right.
	Number bool
}

// columnOf is one by which a list may be sorted, and how rows compare by it.
type columnOf[T any] struct {
	name, title string
	number      bool
	compare     func(a, b T) int
}

// sorted sorts rows by the column that the query names, the first one without any; "-" before the name turns the order
// around. Rows that are equal keep their order.
func sorted[T any](rows []T, columns []columnOf[T], q Query) []Column {
	by, down := strings.CutPrefix(q.Get("sort"), "-")
	at := max(0, slices.IndexFunc(columns, func(c columnOf[T]) bool { return c.name == by }))
	compare := columns[at].compare
	if down {
		compare = func(a, b T) int { return columns[at].compare(b, a) }
	}
	slices.SortStableFunc(rows, compare)
	heads := make([]Column, len(columns))
	for i, c := range columns {
		heads[i] = Column{Title: c.title, URL: q.With("sort", c.name), Number: c.number}
		if i == at {
			heads[i].Order = "ascending"
			if down {
				heads[i].Order = "descending"
			} else {
				heads[i].URL = q.With("sort", "-"+c.name)
			}
		}
	}
	return heads
}

// Choice is one of the values of a filter.
type Choice struct {
	Title, URL string
	N          int
	Here       bool
}

// choices are the states that rows have, each with the address of those rows alone.
func choices[T any](rows []T, state func(T) string, q Query) []Choice {
	count := map[string]int{}
	for _, r := range rows {
		count[state(r)]++
	}
	here := q.Get("state")
	all := []Choice{{Title: "all", URL: q.With("state", ""), N: len(rows), Here: here == ""}}
	if _, there := count[here]; here != "" && !there {
		count[here] = 0
	}
	names := make([]string, 0, len(count))
	for name := range count {
		names = append(names, name)
	}
	slices.SortFunc(names, compareStates)
	for _, name := range names {
		all = append(all, Choice{Title: name, URL: q.With("state", name), N: count[name], Here: name == here})
	}
	return all
}
