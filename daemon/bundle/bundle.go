// Package bundle writes a support bundle: what is known of a server, a cluster or a host, in one file that can be given to others. Of values
// with fields only those of a list get in, of text what looks like a secret does not, and the bundle says what was left out and why.
package bundle

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

const (
	// maxFile bounds a file of a bundle, maxAll all of them, in bytes.
	maxFile = 4 << 20
	maxAll  = 64 << 20
	// maxText bounds a text in a field.
	maxText = 4 << 10
	// shown is how much of a file index.html has.
	shown = 256 << 10
)

// Bundle is what was collected.
type Bundle struct {
	title string
	made  time.Time
	files []file
	size  int
	// left is what was left out, by file: the name of a field, or of a kind of secret, and how often.
	left map[string]map[string]int
	// failed are files that could not be had, and why.
	failed map[string]string
}

type file struct {
	name, title string
	content     []byte
}

// New makes an empty bundle. The title says what it is of.
func New(title string, made time.Time) *Bundle {
	return &Bundle{title: title, made: made, left: map[string]map[string]int{}, failed: map[string]string{}}
}

// Text puts a text in, without what looks like a secret. Of a long one the end stays.
func (b *Bundle) Text(name, title, text string) {
	text = strings.ToValidUTF8(text, "\ufffd")
	if cut := len(text) - maxFile; cut > 0 {
		text = text[cut:]
		b.leave(name, fmt.Sprintf("the first %d bytes", cut))
	}
	text, found := Scrub(text)
	for kind, n := range found {
		b.left[name] = counted(b.left[name], kind, n)
	}
	b.put(name, title, []byte(text))
}

// Value puts a value in, as JSON, with the fields that are allowed alone. It is a value of ours or an answer of a server as json.RawMessage.
// Of a list that is too large for a file the first items are in it.
func (b *Bundle) Value(name, title string, value any, allowed Fields) {
	text, err := json.Marshal(value)
	if err != nil {
		b.Fail(name, fmt.Errorf("it is no JSON: %w", err))
		return
	}
	var items []json.RawMessage
	if json.Unmarshal(text, &items) != nil {
		if text, err = b.kept(name, text, "", allowed); err != nil {
			b.Fail(name, err)
			return
		}
		b.put(name, title, text)
		return
	}
	list := []byte("[")
	for i, item := range items {
		text, err := b.kept(name, item, "  ", allowed)
		if err == nil && len(list)+len(text)+len(",\n  \n]") > maxFile {
			b.left[name] = counted(b.left[name], "items behind those that fit into the file", len(items)-i)
			break
		}
		if err != nil {
			b.Fail(name, err)
			return
		}
		if i > 0 {
			list = append(list, ',')
		}
		list = append(append(list, "\n  "...), text...)
	}
	if len(items) > 0 {
		list = append(list, '\n')
	}
	b.put(name, title, append(list, ']'))
}

// kept is what is allowed of a value, in lines of its own, which begin with prefix but for the first.
func (b *Bundle) kept(name string, text []byte, prefix string, allowed Fields) ([]byte, error) {
	var read any
	if err := json.Unmarshal(text, &read); err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	left := map[string]int{}
	kept := allowed.keep(read, "", left)
	for what, n := range left {
		b.left[name] = counted(b.left[name], what, n)
	}
	text, err := json.MarshalIndent(kept, prefix, "  ")
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("it has %d bytes, more than %d", len(text), maxFile)
	}
	return text, err
}

func counted(m map[string]int, what string, n int) map[string]int {
	if m == nil {
		m = map[string]int{}
	}
	m[what] += n
	return m
}

func (b *Bundle) leave(name, what string) { b.left[name] = counted(b.left[name], what, 1) }

func (b *Bundle) put(name, title string, content []byte) {
	if b.size += len(content); b.size > maxAll {
		b.Fail(name, fmt.Errorf("the bundle is full: it has %d MiB", maxAll>>20))
		return
	}
	b.files = append(b.files, file{path.Join("/", name)[1:], title, content}) // never above where it is unpacked
}

// Fail says why a file is not there.
func (b *Bundle) Fail(name string, err error) {
	text, _ := Scrub(err.Error())
	b.failed[name] = text
}

// Missing are the names of the files that could not be had, with why.
func (b *Bundle) Missing() map[string]string { return maps.Clone(b.failed) }

// manifest is MANIFEST.json.
type manifest struct {
	Title   string                    `json:"title"`
	Made    time.Time                 `json:"made"`
	Files   []manifestFile            `json:"files"`
	LeftOut map[string]map[string]int `json:"leftOut"`
	Missing map[string]string         `json:"missing"`
}

type manifestFile struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Size   int    `json:"size"`
	SHA256 string `json:"sha256"`
}

// Write writes the bundle as a tar archive, compressed by zstd: index.html, which a browser reads, MANIFEST.json, and the files. The errors are
// those of w.
func (b *Bundle) Write(w io.Writer) error {
	m := manifest{Title: b.title, Made: b.made.UTC(), LeftOut: b.left, Missing: b.failed, Files: []manifestFile{}}
	for _, f := range b.files {
		sum := sha256.Sum256(f.content)
		m.Files = append(m.Files, manifestFile{f.name, f.title, len(f.content), hex.EncodeToString(sum[:])})
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write the bundle's manifest: %w", err)
	}
	packed, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("compress the bundle: %w", err)
	}
	archive := tar.NewWriter(packed)
	for _, f := range slices.Concat([]file{{"index.html", "", b.page(m)}, {"MANIFEST.json", "", text}}, b.files) {
		err = errors.Join(err, archive.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(f.content)), ModTime: m.Made}))
		if err == nil {
			_, err = archive.Write(f.content)
		}
	}
	if err = errors.Join(err, archive.Close(), packed.Close()); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	return nil
}

// page is index.html: all of the bundle on one page, which needs nothing else and runs nothing.
func (b *Bundle) page(m manifest) []byte {
	var p bytes.Buffer
	esc := html.EscapeString
	fmt.Fprintf(&p, `<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>%[1]s</title><style>body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}pre{background:#f4f4f4;padding:1rem;overflow:auto;max-height:40rem}
td,th{text-align:left;padding:.2rem 1rem .2rem 0;vertical-align:top}@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}pre{background:#222}a{color:#8cf}}</style>
<h1>%[1]s</h1><p>Made %[2]s. Fields are in it by a list; what was left out is at the end.</p><ul>`, esc(m.Title), m.Made.Format(time.RFC3339))
	for i, f := range b.files {
		fmt.Fprintf(&p, "<li><a href=\"#f%d\">%s</a> (%d bytes)", i, esc(f.title), len(f.content))
	}
	p.WriteString("</ul>")
	if len(m.Missing) > 0 {
		p.WriteString("<h2>What could not be had</h2><table>")
		for _, name := range slices.Sorted(maps.Keys(m.Missing)) {
			fmt.Fprintf(&p, "<tr><th>%s<td>%s", esc(name), esc(m.Missing[name]))
		}
		p.WriteString("</table>")
	}
	for i, f := range b.files {
		content, more := f.content, ""
		if cut := len(content) - shown; cut > 0 {
			for cut < len(content) && !utf8.RuneStart(content[cut]) {
				cut++
			}
			content, more = content[cut:], fmt.Sprintf("<p>The end of %s; the file has all of it.", esc(f.name))
		}
		fmt.Fprintf(&p, "<h2 id=\"f%d\">%s</h2><p>%s%s<pre>%s</pre>", i, esc(f.title), esc(f.name), more, esc(string(content)))
	}
	p.WriteString("<h2>What was left out</h2><table><tr><th>file<th>what<th>times")
	for _, name := range slices.Sorted(maps.Keys(m.LeftOut)) {
		for _, what := range slices.Sorted(maps.Keys(m.LeftOut[name])) {
			fmt.Fprintf(&p, "<tr><td>%s<td>%s<td>%d", esc(name), esc(what), m.LeftOut[name][what])
		}
	}
	p.WriteString("</table></html>\n")
	return p.Bytes()
}

// Save writes a bundle to a new file that its owner alone reads. The errors are those of the file system; nothing is left then.
func Save(to string, b *Bundle) error {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	if err := errors.Join(b.Write(f), f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write the bundle to %s, see whether the disk is full: %w", to, err), os.Remove(to))
	}
	return nil
}
