package answers

const (
	// objectWeight is what an element weighs of a list on the second level, as those of "items" are: near to the size of the structure
	// that it becomes, which an empty one of three bytes becomes as well. elementWeight is that of an element further down, and
	// memberWeight that of a member of an object.
	objectWeight  = 1 << 10
	elementWeight = 256
	memberWeight  = 64
	// maxDepth is how deep values may be nested.
	maxDepth = 256
)

// scanner weighs JSON while it comes. It does not see whether it is valid: what decodes it does. Of what is not JSON the bytes
// count alone, or more.
type scanner struct {
	// arrays has for each value around whether it is an array.
	arrays          []bool
	quoted, escaped bool
	tooDeep         bool
}

// next reads up to the end of the first value that is an object or an array, and says how many bytes that were, what the values in
// them weigh beside their bytes, and whether a value has ended.
func (s *scanner) next(p []byte) (read int, weight int64, ended bool) {
	for i, c := range p {
		if s.quoted {
			switch {
			case s.escaped:
				s.escaped = false
			case c == '\\':
				s.escaped = true
			case c == '"':
				s.quoted = false
			}
			continue
		}
		switch c {
		case '"':
			s.quoted = true
		case '{', '[':
			if len(s.arrays) == maxDepth {
				s.tooDeep = true
				return len(p), weight, false
			}
			s.arrays = append(s.arrays, c == '[')
			weight += s.inner()
		case ',':
			weight += s.inner()
		case '}', ']':
			if len(s.arrays) > 0 {
				s.arrays = s.arrays[:len(s.arrays)-1]
			}
			if len(s.arrays) == 0 {
				return i + 1, weight, true
			}
		}
	}
	return len(p), weight, false
}

// inner is what a value weighs that is next in the one that is open.
func (s *scanner) inner() int64 {
	switch depth := len(s.arrays); {
	case depth == 0 || !s.arrays[depth-1]:
		return memberWeight
	case depth <= 2:
		return objectWeight
	}
	return elementWeight
}
