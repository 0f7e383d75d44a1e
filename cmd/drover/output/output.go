// Package output prints what commands have to say: the same value as a table for people, or in a form for programs.
// All commands that show something take the same formats, and their JSON is that of server/views, not that of other
// programs' clients.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
	"gopkg.in/yaml.v3"
	"k8s.io/client-go/util/jsonpath"
)

// Format is how a value is printed.
type Format struct {
	kind string
	path *jsonpath.JSONPath
}

// The formats beside jsonpath=TEMPLATE.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

const pathPrefix = "jsonpath="

// Formats are what -o takes, as a shell completes it.
func Formats() []string {
	return []string{formatTable, formatWide, formatJSON, formatYAML, formatName, pathPrefix}
}

// Usage describes -o in a line.
const Usage = "table, wide, json, yaml, name, or jsonpath=TEMPLATE as kubectl takes it"

// Parse reads a format; nothing is table. The error is a sentence about the text.
func Parse(text string) (Format, error) {
	if text == "" {
		return Format{kind: formatTable}, nil
	}
	if template, ok := strings.CutPrefix(text, pathPrefix); ok {
		return parsePath(template)
	}
	if text == strings.TrimSuffix(pathPrefix, "=") {
		return Format{}, fmt.Errorf("-o jsonpath needs a template, as in -o jsonpath='{.name}'")
	}
	if !slices.Contains(Formats(), text) {
		return Format{}, fmt.Errorf("-o %.40s: the formats are %s", text, Usage)
	}
	return Format{kind: text}, nil
}

// parsePath reads a template of JSONPath. One without braces is a path alone.
func parsePath(template string) (Format, error) {
	if template == "" {
		return Parse(strings.TrimSuffix(pathPrefix, "="))
	}
	if !strings.Contains(template, "{") {
		template = "{." + strings.TrimPrefix(template, ".") + "}"
	}
	path := jsonpath.New("-o").AllowMissingKeys(true)
	if err := path.Parse(template); err != nil {
		return Format{}, fmt.Errorf("-o jsonpath=%.80s is not a JSONPath template: %v; an example is '{range [*]}{.name}{\"\\n\"}{end}'", template, err) //nolint:errorlint // a sentence about the command line
	}
	return Format{kind: pathPrefix, path: path}, nil
}

// Tabular says that people read the output.
func (f Format) Tabular() bool { return f.kind == formatTable || f.kind == formatWide || f.kind == "" }

// Wide says that people have room for all columns.
func (f Format) Wide() bool { return f.kind == formatWide }

// YAML says that the output is YAML.
func (f Format) YAML() bool { return f.kind == formatYAML }

// JSON says that the output is JSON.
func (f Format) JSON() bool { return f.kind == formatJSON }

// Printer prints values.
type Printer struct {
	Out    io.Writer
	Format Format
	// Colour marks headings and states of tables.
	Colour bool
}

// Coloured says that out is a terminal whose owner does not mind colours: see https://no-color.org.
func Coloured(out io.Writer, environ func(string) string) bool {
	return isTerminal(out) && environ("NO_COLOR") == "" && environ("TERM") != "dumb"
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(file.Fd()))
}

// Screen is what commands write to: a terminal shows what comes from elsewhere and does not obey it. Where out is a file, a pipe
// or a buffer, its bytes stay as they are, for programs.
func Screen(out io.Writer) io.Writer {
	file, ok := out.(*os.File)
	if !ok || !isTerminal(out) {
		return out
	}
	return screen{file, newSafeWriter(file, bold, red, green, yellow, plain)}
}

// screen is a terminal with what is written to it made safe.
type screen struct {
	*os.File
	safe *safeWriter
}

// Write implements io.Writer.
func (s screen) Write(p []byte) (int, error) { return s.safe.Write(p) }

// WriteString implements io.StringWriter.
func (s screen) WriteString(text string) (int, error) { return s.safe.Write([]byte(text)) }

// ReadFrom implements io.ReaderFrom, as that of the file would go past Write.
func (s screen) ReadFrom(r io.Reader) (int64, error) { return io.Copy(s.safe, r) }

// Raw is what is below a Screen, for a program that is run on the terminal by itself.
func Raw(out io.Writer) io.Writer {
	if s, ok := out.(screen); ok {
		return s.File
	}
	return out
}

// Show prints a value, or for people the table that fill makes of it. It returns an error of the writer, or of a template that does not fit the
// value.
func (p Printer) Show(value any, fill func(*Table)) error {
	if p.Format.Tabular() {
		t := Table{wide: p.Format.Wide()}
		if fill != nil {
			fill(&t)
		}
		return t.print(p.Out, p.Colour)
	}
	if p.Format.JSON() {
		encoder := json.NewEncoder(p.Out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(value)
	}
	// Through JSON, so that all formats have the same names.
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("print a value: %w", err)
	}
	var plain any
	if err := yaml.Unmarshal(b, &plain); err != nil { // which keeps whole numbers whole
		return fmt.Errorf("print a value: %w", err)
	}
	switch {
	case p.Format.YAML():
		encoder := yaml.NewEncoder(p.Out)
		encoder.SetIndent(2)
		return encoder.Encode(plain)
	case p.Format.path != nil:
		var text strings.Builder
		if err := p.Format.path.Execute(&text, plain); err != nil {
			return fmt.Errorf("print by the template of -o: %w", err)
		}
		if !strings.HasSuffix(text.String(), "\n") {
			text.WriteString("\n")
		}
		_, err := io.WriteString(p.Out, text.String())
		return err
	}
	for _, name := range names(plain) {
		if _, err := fmt.Fprintln(p.Out, name); err != nil {
			return err
		}
	}
	return nil
}

// names are what commands take for the things of a value, one or many.
func names(value any) []string {
	many, ok := value.([]any)
	if !ok {
		many = []any{value}
	}
	var all []string
	for _, one := range many {
		if fields, ok := one.(map[string]any); ok {
			if name := nameOf(fields); name != "" {
				all = append(all, name)
			}
		}
	}
	return all
}

// nameFields are the fields that name a thing of a type, the first that has something; others are named by name or id.
var nameFields = map[any][]string{
	"user": {"username", "id"}, "version": {"version"}, "tunnel": {"host", "subject"}, "globalRole": {"id"}, "roleTemplate": {"id"},
	"globalRoleBinding": {"id"}, "clusterRoleTemplateBinding": {"id"}, "projectRoleTemplateBinding": {"id"}, "event": {"id"}, "operation": {"id"},
	"whoami": {"username", "userId"}, "directory": {"kind"},
}

func nameOf(fields map[string]any) string {
	text := func(field string) string { s, _ := fields[field].(string); return s }
	if text("kind") == "Secret" || text("kind") == "ConfigMap" {
		return strings.ToLower(text("kind")) + "/" + text("namespace") + "/" + text("name")
	}
	if document, ok := fields["metadata"].(map[string]any); ok { // a document for apply
		return nameOf(document)
	}
	fallback := []string{"name", "id", "version", "subject", "command"}
	for _, field := range append(slices.Clone(nameFields[fields["type"]]), fallback...) {
		if s := text(field); s != "" {
			return s
		}
	}
	return ""
}
