// Amounts of bytes, as people write them.

package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

const defaultCacheLimit = 2 << 30

// Size is an amount of bytes, as a number or with a unit: 2147483648, 2GiB, 500MiB, 1GB.
type Size string

// UnmarshalJSON takes a number or a text.
func (s *Size) UnmarshalJSON(b []byte) error {
	text := string(b)
	if unquoted, err := strconv.Unquote(text); err == nil {
		text = unquoted
	}
	if text != "null" {
		*s = Size(text)
	}
	return nil
}

var units = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

// Bytes is the amount; an error says what is expected.
func (s Size) Bytes() (int64, error) {
	for _, u := range units {
		number, ok := strings.CutSuffix(string(s), u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(n >= 0) || n*u.bytes > math.MaxInt64/2 {
			break
		}
		return int64(n * u.bytes), nil
	}
	return 0, fmt.Errorf("%.40q is not an amount such as 2147483648, 2GiB or 500MiB", string(s))
}
