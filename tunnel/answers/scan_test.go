package answers

import (
	"encoding/json"
	"testing"
)

// FuzzScan compares where values end with what decodes them, and that the pieces in which they come do not matter.
func FuzzScan(f *testing.F) {
	for _, text := range []string{`{"a": [1, "}]\"", {}], "b": null} [[]]`, `{} {`, `"a" 1 {}`, `}{]`, `{"\\":"\u0022"}`} {
		f.Add([]byte(text), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		piece = max(piece%64, 1)
		var whole, pieces scanner
		ends, weight := values(&whole, text, len(text))
		cut, cutWeight := values(&pieces, text, piece)
		if len(ends) != len(cut) || !whole.tooDeep && weight != cutWeight {
			t.Fatalf("%d values of %d in one piece, %d of %d in pieces of %d", len(ends), weight, len(cut), cutWeight, piece)
		}
		if !json.Valid(text) || whole.tooDeep {
			return
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			return
		}
		switch value.(type) {
		case map[string]any, []any:
			if len(ends) != 1 || len(whole.arrays) != 0 || whole.quoted {
				t.Fatalf("one value ends at %v", ends)
			}
			if least := int64(count(value)) * memberWeight; weight < least {
				t.Fatalf("it weighs %d, and has %d values in it", weight, least/memberWeight)
			}
		default:
			if len(ends) != 0 {
				t.Fatalf("what is no object ends at %v", ends)
			}
		}
	})
}

// values are where the values of a text end, and what they weigh.
func values(s *scanner, text []byte, piece int) (ends []int, weight int64) {
	for at := 0; at < len(text) && !s.tooDeep; {
		read, more, ended := s.next(text[at:min(len(text), at+piece)])
		at += read
		weight += more
		if ended {
			ends = append(ends, at)
		}
	}
	return ends, weight
}

// count is how many values are in one; of members of one name the last one alone.
func count(value any) (n int) {
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			n += 1 + count(member)
		}
	case []any:
		for _, element := range v {
			n += 1 + count(element)
		}
	}
	return n
}
