// Cluster documents from files, directories and standard input, as one stream that is
// taken whole or not at all; what the server says of a line finds its way back to its file.

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxDocuments bounds what is read of files of clusters.
const maxDocuments = 2 << 20

// documents are the texts of several files one after the other.
type documents struct {
	text  []byte
	parts []part
}

// part is one file; first is the line of the stream that it begins with.
type part struct {
	name  string
	first int
}

// read reads files, of directories those whose names end in .yaml, .yml or .json, and
// standard input for "-". Recursively they are read of directories below as well.
func (a *app) read(names []string, recursive bool) (documents, error) {
	var all documents
	for _, name := range names {
		if name == "-" && slices.ContainsFunc(all.parts, func(p part) bool { return p.name == "standard input" }) {
			return documents{}, usage("standard input is given twice, and can be read once")
		}
		files, err := filesOf(name, recursive)
		if err != nil {
			return documents{}, fmt.Errorf("read clusters: %w", err)
		}
		for _, file := range files {
			if err := a.readOne(&all, file); err != nil {
				return documents{}, err
			}
		}
	}
	return all, nil
}

func filesOf(name string, recursive bool) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	if info, err := os.Stat(name); err != nil || !info.IsDir() {
		return []string{name}, nil // opening it says what is wrong with it
	}
	var files []string
	below, root := false, strings.TrimRight(name, "/")+"/"                            // with which a link to a directory is one
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error { // sorted by name
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != root && (!recursive || strings.HasPrefix(e.Name(), ".")): // as .git
			below = true
			return filepath.SkipDir
		case !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())):
			files = append(files, path)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(files) == 0 && below && !recursive:
		return nil, fmt.Errorf("directory %s has no file whose name ends in .yaml, .yml or .json; -R looks into the directories below it, too", name)
	case len(files) == 0:
		return nil, fmt.Errorf("directory %s has no file whose name ends in .yaml, .yml or .json", name)
	}
	return files, nil
}

func (a *app) readOne(all *documents, file string) error {
	source := a.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return fmt.Errorf("read clusters: %w", err)
		}
		defer f.Close()
		source = f
	}
	text, err := io.ReadAll(io.LimitReader(source, maxDocuments+1))
	if err != nil {
		return fmt.Errorf("read clusters from %s: %w", file, err)
	}
	if len(all.text) > 0 {
		all.text = append(bytes.TrimRight(all.text, "\n"), "\n---\n"...)
	}
	if file == "-" {
		file = "standard input"
	}
	all.parts = append(all.parts, part{file, bytes.Count(all.text, []byte("\n")) + 1})
	all.text = append(all.text, text...)
	if len(all.text) > maxDocuments {
		return fmt.Errorf("read clusters from %s: more than %d bytes together", file, maxDocuments)
	}
	return nil
}

// at is where a line of the stream comes from: the file and the line in it.
func (d documents) at(line int) string {
	file := d.parts[0]
	for _, p := range d.parts {
		if line >= p.first {
			file = p
		}
	}
	if line == 0 {
		if len(d.parts) > 1 {
			return strings.Join(d.names(), ", ")
		}
		return file.name
	}
	return fmt.Sprintf("%s:%d", file.name, line-file.first+1)
}

func (d documents) names() []string {
	var names []string
	for _, p := range d.parts {
		names = append(names, p.name)
	}
	return names
}

var errNothingChanged = errors.New("nothing was changed")
