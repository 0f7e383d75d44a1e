// A plan as a file holds it: the JSON document that servers send, or the same in YAML for
// people who write plans by hand. YAML is read strictly, since no newer server has
// written it: a field that no plan has is a mistake, and is named with its line.

package drop

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/handwritten"
	"github.com/drover-project/drover/plans/strictyaml"
)

// planSuffixes end the names of plans. Only the first is the original's.
var planSuffixes = []string{planSuffix, ".yaml", ".yml"}

// isPlan says whether a file of this base name is a plan.
func isPlan(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains(planSuffixes, filepath.Ext(name))
}

// Document is a plan and the bytes that it was read from.
type Document struct {
	Plan     *plans.Plan
	Raw      []byte // as in the file
	Checksum string // plans.Checksum of Raw
}

// ReadPlanFile reads a plan from a file that a user named: YAML when its name ends in
// .yaml or .yml, JSON otherwise. Who could have written the file is not asked. Errors name
// the file and, for YAML, the line.
func ReadPlanFile(path string) (*Document, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a fifo would hold everything up
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the plan: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, plans.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	p, err := parse(path, b)
	var at strictyaml.Error
	if err != nil && !errors.As(err, &at) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	if err != nil {
		return nil, err
	}
	return &Document{Plan: p, Raw: b, Checksum: plans.Checksum(b)}, nil
}

// parse reads the content of a plan's file.
func parse(path string, b []byte) (*plans.Plan, error) {
	switch filepath.Ext(path) {
	case ".yaml", ".yml":
		return handwritten.Parse(path, b)
	}
	return plans.Parse(b)
}
