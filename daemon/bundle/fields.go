package bundle

import "strings"

// Fields are the fields of a value that may get into a bundle, by their names in JSON; a field of scalars, or of lists of them, has no Fields of
// its own. The name * stands for all keys of a map whose keys tell nothing secret.
type Fields map[string]Fields

// Allow reads Fields from names with blanks between them; those of an inner value stand in braces behind its name: "name roles{etcd worker}". What
// stands behind a brace that closes nothing is not allowed.
func Allow(names string) Fields {
	fields, _ := parse(strings.Fields(strings.NewReplacer("{", " { ", "}", " } ").Replace(names)))
	return fields
}

func parse(words []string) (Fields, []string) {
	fields, last := Fields{}, ""
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		switch word {
		case "{":
			fields[last], words = parse(words)
		case "}":
			return fields, words
		default:
			fields[word], last = nil, word
		}
	}
	return fields, nil
}

// keep returns a value of JSON with the allowed fields alone, and counts what it leaves out.
func (f Fields) keep(value any, at string, left map[string]int) any {
	switch value := value.(type) {
	case map[string]any:
		if f == nil {
			left[at+" (an object)"]++
			return nil
		}
		kept := map[string]any{}
		for name, field := range value {
			inner, ok := f[name]
			if !ok {
				inner, ok = f["*"]
			}
			path := strings.TrimPrefix(at+"."+name, ".")
			if !ok {
				if f["*"] == nil && !isName(name) {
					path = strings.TrimPrefix(at+".?", ".") // a key of a map may be anything
				}
				left[path]++
				continue
			}
			key, _ := Scrub(name)
			kept[key] = inner.keep(field, path, left)
		}
		return kept
	case []any:
		kept := make([]any, len(value))
		for i, one := range value {
			kept[i] = f.keep(one, at, left)
		}
		return kept
	case string:
		text := value
		if len(text) > maxText {
			text = strings.ToValidUTF8(text[:maxText], "") + "…"
			left[at+" (behind its beginning)"]++
		}
		text, found := Scrub(text)
		for kind, n := range found {
			left[at+": "+kind] += n
		}
		return text
	}
	return value
}

// isName says that a key is one of our types' field names: those that people choose may be secrets.
func isName(key string) bool {
	if len(key) > 40 {
		return false
	}
	for _, r := range key {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			return false
		}
	}
	return true
}
