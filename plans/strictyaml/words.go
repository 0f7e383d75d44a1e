// What is said of values and keys that are wrong.

package strictyaml

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// leadingZero: 0644 is 420 to some readers and 644 to others; its author means the digits.
func leadingZero(number string) bool {
	number = strings.TrimLeft(number, "+-")
	return len(number) > 1 && number[0] == '0' && number[1] >= '0' && number[1] <= '9'
}

func shape(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case quoted(n):
		return Quoted
	}
	return "a single value"
}

// Quoted is the Error.Got of a text in quotes.
const Quoted = "a text in quotes"

func describe(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return shape(n)
	}
	switch n.Tag {
	case "!!int", "!!float":
		return "the number " + cut(n.Value)
	case "!!bool":
		return "the truth value " + cut(n.Value)
	case "!!timestamp":
		return "the date " + cut(n.Value)
	default:
		return fmt.Sprintf("the text %q", cut(n.Value))
	}
}

// cut bounds what an error repeats of a text.
func cut(text string) string {
	if len(text) <= maxQuoted {
		return text
	}
	return strings.ToValidUTF8(text[:maxQuoted], "") + "…"
}

// suggestion names the field that was probably meant.
func suggestion(key string, fields []string) string {
	best, distance := "", 4
	for _, name := range fields {
		if n := editDistance(strings.ToLower(key), strings.ToLower(name)); n < distance || (n == distance && name < best) {
			best, distance = name, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			above := row[j]
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above+1, row[j-1]+1, diagonal+cost)
			diagonal = above
		}
	}
	return row[len(b)]
}
