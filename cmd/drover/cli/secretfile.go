// Secrets that a user gives a command: from a file that no other user of the host can read, or from standard input. A secret is never
// an argument, as all users of a host can read those.

package cli

import (
	"fmt"
	"io"
	"os"
)

// maxSecret bounds a secret in bytes.
const maxSecret = 4 << 10

// readSecret is the text of a file, or of in for the name "-". The error says what is wrong with the file.
func readSecret(in io.Reader, name string) (string, error) {
	called := "standard input"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("read a secret: %w", err)
		}
		defer f.Close()
		info, err := f.Stat()
		switch {
		case err != nil:
			return "", fmt.Errorf("read a secret: %w", err)
		case info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0:
			return "", fmt.Errorf("%s has mode %04o, so others can read it: chmod 600 %s", name, info.Mode().Perm(), name)
		}
		in, called = f, name
	}
	text, err := io.ReadAll(io.LimitReader(in, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", called, err)
	}
	if len(text) > maxSecret {
		return "", fmt.Errorf("%s has more than %d bytes, and is not a secret", called, maxSecret)
	}
	return string(text), nil
}
