// Rancher's servers start the container share-mnt with a script of their own image:
// `-- share-root.sh 'docker run … IMAGE FLAGS' PATH…`. The script would start two more containers;
// here the agent itself shares the paths and takes the flags out of the command.

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/drover-project/drover/daemon/node"
)

const shareRoot = "share-root.sh"

// shareMnt is what such a start asks for.
type shareMnt struct {
	flags []string          // of the agent
	env   map[string]string // that the agent's container would have got
	paths []string          // to share
}

// readShareMnt reads the words after `--`. wanted says whether they are such a start at all.
func readShareMnt(args []string) (s shareMnt, wanted bool, err error) {
	if len(args) == 0 || args[0] != shareRoot {
		return s, false, nil
	}
	if len(args) < 2 {
		return s, true, fmt.Errorf("%s needs the command of the agent, and paths", shareRoot)
	}
	words, err := split1(args[1])
	if err != nil {
		return s, true, fmt.Errorf("%s: the command of the agent: %w", shareRoot, err)
	}
	begin := slices.IndexFunc(words, func(w string) bool { return w == "--server" || w == "-s" || strings.HasPrefix(w, "--server=") })
	if begin < 0 {
		return s, true, fmt.Errorf("%s: the command of the agent has no --server", shareRoot)
	}
	s.flags, s.env, s.paths = words[begin:], map[string]string{}, args[2:]
	for i, w := range words[:begin] {
		text, one := strings.CutPrefix(w, "--env=")
		if w == "-e" || w == "--env" {
			text, one = words[i+1], true
		}
		if key, value, ok := strings.Cut(text, "="); one && ok && key != "" {
			s.env[key] = value
		}
	}
	for _, path := range s.paths {
		if !strings.HasPrefix(path, "/") {
			return s, true, fmt.Errorf("%s: %.60q is not an absolute path", shareRoot, path)
		}
	}
	return s, true, nil
}

// hostRoot is the host's root directory as a container sees it that has the host's processes.
const hostRoot = "/proc/1/root"

// run is the agent's life as share-mnt.
func (s shareMnt) run(stderr io.Writer) int {
	for key, value := range s.env {
		if err := os.Setenv(key, value); err != nil {
			return fail(stderr, fmt.Errorf("%s: set %.60q: %w", shareRoot, key, err))
		}
	}
	return agent(s.flags, func(o *node.Options) {
		o.OnlyWriteCerts, o.NoRegister, o.Share = true, true, s.paths
		if os.Getpid() != 1 { // the container has nothing but /var/run mounted
			o.Root = hostRoot
		}
	}, stderr)
}

// split1 splits a command into words as a shell does, quotes and backslashes included;
// nothing is expanded.
func split1(command string) (words []string, err error) {
	var word strings.Builder
	inWord, quote, escaped := false, rune(0), false
	for _, r := range command {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case unicode.IsSpace(r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("it ends within quotes")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
