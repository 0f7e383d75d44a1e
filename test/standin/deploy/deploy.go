// Package deploy is the deploy controller of the stand-in k3s: what the files below the manifests directory say is
// applied to the cluster when they appear and whenever their bytes change, also while the server was down. An object
// that a file no longer mentions is deleted; removing a file deletes nothing, as with the real one.
package deploy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/drover-project/drover/test/standin/atomicfile"
)

// maxManifest bounds one file.
const maxManifest = 8 << 20

// Controller applies one directory. All fields are needed, except Builtin.
type Controller struct {
	// Dir is read recursively: *.yaml, *.yml and *.json.
	Dir string
	// Record is the file that remembers what was made from which file.
	Record string
	// Builtin is applied before the directory, once a run.
	Builtin []byte
	// Objects and Kinds talk to the cluster as an administrator.
	Objects dynamic.Interface
	Kinds   discovery.DiscoveryInterface
	// Log takes what was applied and what could not be.
	Log *slog.Logger
	// Every is the time between two looks at the directory.
	Every time.Duration

	said map[string]string // the last error logged for each file: once is enough
}

// applied is what was made from a file.
type applied struct {
	SHA256  string `json:"sha256"`
	Objects []ref  `json:"objects"`
}

// Run works until the context ends.
func (c *Controller) Run(ctx context.Context) {
	c.said = map[string]string{}
	record, err := c.readRecord()
	if err != nil {
		c.Log.Warn("everything is applied anew: the record of what was deployed cannot be read", "error", err)
		record = map[string]applied{}
	}
	builtin := len(c.Builtin) == 0
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	for {
		if !builtin {
			_, err := c.apply(ctx, c.Builtin)
			builtin = err == nil
			c.report("(built in)", err)
		}
		if builtin {
			c.pass(ctx, record)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// pass applies every file that is not as recorded.
func (c *Controller) pass(ctx context.Context, record map[string]applied) {
	files, err := c.files()
	c.report(c.Dir, err)
	for _, path := range files {
		if ctx.Err() != nil {
			return
		}
		content, err := readManifest(path)
		if err != nil {
			c.report(path, err)
			continue
		}
		sum := sha256.Sum256(content)
		before := record[path]
		if before.SHA256 == hex.EncodeToString(sum[:]) {
			continue
		}
		now, err := c.apply(ctx, content)
		if err == nil {
			err = c.remove(ctx, before.Objects, now)
		}
		if err == nil {
			record[path] = applied{SHA256: hex.EncodeToString(sum[:]), Objects: now}
			err = c.writeRecord(record)
			c.Log.Info("manifest applied", "file", path, "objects", len(now))
		}
		c.report(path, err)
	}
}

// files lists the manifests below the directory in name order.
func (c *Controller) files() ([]string, error) {
	var out []string
	err := filepath.WalkDir(c.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		ext := filepath.Ext(path)
		if !d.IsDir() && d.Name()[0] != '.' && slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
			out = append(out, path)
		}
		return nil
	})
	return out, err
}

func readManifest(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxManifest {
		return nil, fmt.Errorf("larger than %d bytes", maxManifest)
	}
	return content, nil
}

// parse splits a file into its objects; lists give their items.
func parse(content []byte) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	dec := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		var fields map[string]any
		if err := dec.Decode(&fields); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		if len(fields) == 0 {
			continue // an empty document
		}
		u := &unstructured.Unstructured{Object: fields}
		if u.GetAPIVersion() == "" || u.GetKind() == "" {
			return nil, fmt.Errorf("document %d has no apiVersion or kind", len(out)+1)
		}
		if !u.IsList() {
			out = append(out, u)
			continue
		}
		err := u.EachListItem(func(o runtime.Object) error {
			out = append(out, o.(*unstructured.Unstructured))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
}

// report logs an error when it is news, and its end.
func (c *Controller) report(what string, err error) {
	if err == nil {
		delete(c.said, what)
		return
	}
	if c.said[what] != err.Error() && !errors.Is(err, context.Canceled) {
		c.said[what] = err.Error()
		c.Log.Warn("cannot apply the manifest; it is tried again", "file", what, "error", err)
	}
}

func (c *Controller) readRecord() (map[string]applied, error) {
	record := map[string]applied{}
	content, err := os.ReadFile(c.Record)
	if errors.Is(err, fs.ErrNotExist) {
		return record, nil
	}
	if err != nil {
		return nil, err
	}
	return record, json.Unmarshal(content, &record)
}

func (c *Controller) writeRecord(record map[string]applied) error {
	content, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(c.Record, content, 0o600)
}
