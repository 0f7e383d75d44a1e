// Command lines that people copy into a shell. What is in them may come from an address or from a
// document, and so from any author: each such value is one word of the line and nothing else.

package ui

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Quoted is a word of a command line.
func Quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@,+", r)
	}
	switch {
	case word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0:
		return word
	case strings.IndexFunc(word, unseen) >= 0:
		return escaped(word)
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// unseen characters are those that are not seen, or that a terminal takes for a key: one that deletes the line into which the
// word is pasted would turn the rest of the word into a command.
func unseen(r rune) bool { return r != '\n' && (r == utf8.RuneError || !unicode.IsPrint(r)) }

// escaped is a word in the form $'…', in which no character has to be there as it is.
func escaped(word string) string {
	var out strings.Builder
	for i := 0; i < len(word); {
		r, size := utf8.DecodeRuneInString(word[i:])
		switch {
		case r == utf8.RuneError || r < unicode.MaxASCII && (!unicode.IsPrint(r) || strings.ContainsRune(`'\!`, r)):
			for _, b := range []byte(word[i : i+size]) {
				fmt.Fprintf(&out, `\%03o`, b) // of hexadecimal digits a shell would take more than two
			}
		case !unicode.IsPrint(r):
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			out.WriteRune(r)
		}
		i += size
	}
	return "$'" + out.String() + "'"
}

// ShellLine is a command with its arguments and flags; an empty flag is left out. Flags are written as they are, with their values
// quoted. An argument that begins with "-" is none of the flags.
func ShellLine(command string, args []string, flags ...string) string {
	words := []string{command}
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = Quoted(arg)
	}
	flags = slices.DeleteFunc(slices.Clone(flags), func(flag string) bool { return flag == "" })
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") }) {
		words = append(append(words, flags...), append([]string{"--"}, quoted...)...)
	} else {
		words = append(append(words, quoted...), flags...)
	}
	return strings.Join(words, " ")
}

// ShellFlag is a flag with its value; without one it is empty.
func ShellFlag(name, value string) string {
	if value == "" {
		return ""
	}
	return name + " " + Quoted(value)
}
