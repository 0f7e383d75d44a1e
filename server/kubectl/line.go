// A line as a user typed it: its words, and whether kubectl in the page has what it asks for.

package kubectl

import (
	"slices"
	"strings"
)

// MaxLine bounds a line, in bytes.
const MaxLine = 4 << 10

// RefusedError says why a line is not run, as a sentence.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

func refused(reason string) error { return &RefusedError{reason} }

// known are the commands, with their own commands. No other is served, and none of them reads what a user would have to
// type in, or a file of this host.
var known = map[string][]string{
	"annotate": nil, "api-resources": nil, "api-versions": nil, "auth": {"can-i", "whoami"}, "cluster-info": {"dump"}, "cordon": nil, "delete": nil,
	"describe": nil, "drain": nil, "events": nil, "exec": nil, "explain": nil, "get": nil, "label": nil, "logs": nil,
	"rollout": {"history", "pause", "restart", "resume", "status", "undo"}, "scale": nil, "uncordon": nil, "version": nil,
}

// elsewhere are commands of kubectl that are not in the page, with what to do instead.
var elsewhere = map[string]string{
	"apply": files, "create": files, "replace": files, "diff": files, "kustomize": files, "patch": files, "set": files, "run": files, "expose": files, "autoscale": files,
	"edit": keyboard, "attach": keyboard, "debug": keyboard,
	"cp": onHost, "port-forward": onHost, "proxy": onHost, "plugin": onHost, "config": onHost,
}

const (
	instead  = "use kubectl on your own machine, with the kubeconfig of: drover clusters kubeconfig NAME"
	files    = "documents are not taken here: " + instead
	keyboard = "nothing can be typed into a command here: " + instead
	onHost   = "this needs the machine that you sit at: " + instead
	noShell  = "there is no shell here: a line is one command of kubectl, without pipes, redirections, ; & or $(…). Quote what belongs to an argument"
)

// Commands are the commands that there are, in their order.
func Commands() []string {
	var names []string
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Below are the commands of a command, as those of rollout.
func Below(command string) []string { return known[command] }

// Words takes a line apart, as a shell would: quotes keep words together, a backslash takes the next character as it is. A
// leading "kubectl" may be left out. The error is a RefusedError.
func Words(line string) ([]string, error) {
	if len(line) > MaxLine {
		return nil, refused("the line is longer than 4 KiB")
	}
	if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return nil, refused("the line has control characters: one line at a time")
	}
	words, err := split(line)
	if err != nil {
		return nil, err
	}
	if len(words) > 0 && words[0] == "kubectl" {
		words = words[1:]
	}
	if len(words) == 0 {
		return nil, refused("type a command, as in: get pods -A")
	}
	if first := words[0]; first == "help" || first == "--help" || first == "-h" {
		return append([]string{"help"}, words[1:]...), nil
	}
	if _, ok := known[words[0]]; ok {
		return words, nil
	}
	if reason, ok := elsewhere[words[0]]; ok {
		return nil, refused(words[0] + " is not in the terminal: " + reason)
	}
	return nil, refused("a line begins with one of: " + strings.Join(append(Commands(), "help"), ", "))
}

// Name is what the audit log says of a line: the command, and nothing that could be a secret.
func Name(words []string) string {
	if len(words) == 0 {
		return ""
	}
	if len(words) > 1 && slices.Contains(known[words[0]], words[1]) {
		return words[0] + " " + words[1]
	}
	return words[0]
}

// split takes a line apart; what only a shell could do is refused.
func split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	began, escaped, quote := false, false, rune(0)
	var before rune // the character before, outside of single quotes
	for _, r := range line {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune("\"\\$`", r) {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
			r = 0
		case quote == '\'' && r != '\'':
			word.WriteRune(r)
		case r == '\\':
			escaped, began = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, began = r, true
		case r == '`', r == '(' && before == '$', quote == 0 && strings.ContainsRune("|;&<>", r):
			return nil, refused(noShell)
		case quote == 0 && (r == ' ' || r == '\t'):
			if began {
				words = append(words, word.String())
				word.Reset()
				began = false
			}
		default:
			word.WriteRune(r)
			began = true
		}
		before = r
	}
	if quote != 0 {
		return nil, refused("a quote " + string(quote) + " has no end")
	}
	if escaped {
		return nil, refused("the line ends in a backslash")
	}
	if began {
		words = append(words, word.String())
	}
	return words, nil
}
