package output

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a terminal, and what a person sees on it.
func terminal(t *testing.T) (tty *os.File, seen *bufio.Reader) {
	t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pty.Close() })
	number, err := unix.IoctlGetInt(int(pty.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(pty.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return tty, bufio.NewReader(pty)
}

// TestATerminalObeysNothingFromElsewhere: whatever way a command writes it. A file gets the bytes as they are.
func TestATerminalObeysNothingFromElsewhere(t *testing.T) {
	const hostile, want = "log \x1b]0;owned\x07\u009b2J\u202etxt\n", "log ·]0;owned··2J·txt\r\n"
	for name, write := range map[string]func(io.Writer) error{
		"Write":       func(w io.Writer) error { _, err := w.Write([]byte(hostile)); return err },
		"WriteString": func(w io.Writer) error { _, err := io.WriteString(w, hostile); return err },
		"Copy":        func(w io.Writer) error { _, err := io.Copy(w, strings.NewReader(hostile)); return err },
		"Copy of a stream": func(w io.Writer) error {
			_, err := io.Copy(w, struct{ io.Reader }{strings.NewReader(hostile)}) // which a terminal's file would read from by itself
			return err
		},
		"Fprint": func(w io.Writer) error { _, err := fmt.Fprint(w, hostile); return err },
	} {
		tty, seen := terminal(t)
		out := Screen(tty)
		if err := write(out); err != nil {
			t.Fatal(err)
		}
		if line, err := seen.ReadString('\n'); err != nil || line != want {
			t.Errorf("%s: %q, %v", name, line, err)
		}
		if !Coloured(out, func(string) string { return "" }) {
			t.Errorf("%s: no colours", name)
		}
		if Raw(out) != io.Writer(tty) {
			t.Errorf("%s: a program that is run does not get the terminal", name)
		}
	}
	var file bytes.Buffer
	if _, err := io.WriteString(Screen(&file), hostile); err != nil || file.String() != hostile {
		t.Errorf("a file has %q, %v", file.String(), err)
	}
	tty, seen := terminal(t)
	table := Table{}
	table.Row("NAME", "STATE")
	table.Row("n1\x1b[2J\u202e", "Active")
	if err := table.print(Screen(tty), true); err != nil {
		t.Fatal(err)
	}
	heading, _ := seen.ReadString('\n')
	if row, err := seen.ReadString('\n'); err != nil || heading != bold+"NAME      STATE"+plain+"\r\n" || row != "n1·[2J·   "+green+"Active"+plain+"\r\n" {
		t.Errorf("%q, %q, %v", heading, row, err)
	}
}

// TestCommandsWriteToTheirStreams: only main knows the program's own outputs, so that nothing goes past Screen.
func TestCommandsWriteToTheirStreams(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Dir(path) == ".." {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok {
					switch what := pkg.Name + "." + sel.Sel.Name; what {
					case "os.Stdout", "os.Stderr", "fmt.Print", "fmt.Printf", "fmt.Println":
						t.Errorf("%s uses %s: write to the streams of the command, which Screen makes safe", path, what)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 30 {
		t.Errorf("%d files, %v", files, err)
	}
}
