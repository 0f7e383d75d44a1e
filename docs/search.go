package docs

import (
	"cmp"
	"slices"
	"strings"
)

// Hit is a section that has all the words.
type Hit struct{ URL, Page, Title, Text string }

// Bounds of a search: how many words of how many bytes are looked for, how much is shown.
const (
	maxWords   = 8
	maxWord    = 64
	mostHits   = 30
	shownText  = 240
	titleCount = 10 // what a word in a heading counts
)

// Search finds the sections that have all the words of a query, best first: by how often they stand there, and more where they stand
// in the heading.
func (m *Manual) Search(query string) []Hit {
	words := strings.Fields(strings.ToLower(query))
	words = words[:min(len(words), maxWords)]
	for i, w := range words {
		words[i] = strings.ToValidUTF8(w[:min(len(w), maxWord)], "")
	}
	type found struct {
		section
		score, at int
	}
	var all []found
	for _, s := range m.sections {
		one := found{section: s, at: -1}
		for _, w := range words {
			n := strings.Count(s.lower, w)
			if n == 0 {
				one.score = 0
				break
			}
			// A long section has a word often without being about it.
			one.score += min(n, 5) + titleCount*strings.Count(strings.ToLower(s.Title+" "+s.title), w)
			if at := strings.Index(s.lower, w); one.at < 0 || at < one.at {
				one.at = at
			}
		}
		if one.score > 0 {
			all = append(all, one)
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(b.score, a.score) })
	hits := make([]Hit, 0, min(len(all), mostHits))
	for _, f := range all[:min(len(all), mostHits)] {
		url := Base + f.page
		if f.Anchor != "" {
			url += "#" + f.Anchor
		}
		hits = append(hits, Hit{URL: url, Page: f.title, Title: f.Title, Text: excerpt(f.words, f.at)})
	}
	return hits
}

// excerpt is the text around a place, cut between words.
func excerpt(words string, at int) string {
	text := strings.ToValidUTF8(words[max(0, at-shownText/3):min(len(words), at+shownText)], "")
	text = strings.Join(strings.Fields(text), " ")
	if at > shownText/3 {
		_, text, _ = strings.Cut(text, " ")
		text = "… " + text
	}
	if len(words) > at+shownText {
		if last := strings.LastIndexByte(text, ' '); last > 0 {
			text = text[:last] + " …"
		}
	}
	return text
}
