// Where the data come from: the program itself, a file, or an address with its last good copy.

package versions

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/fetch"
	"github.com/drover-project/drover/plans/jsonfault"
	"github.com/drover-project/drover/rke1/config"
)

// embedded has what is offered: the last release of each minor line from 1.23 on that KDM had in January 2025, and
// v1.30.5-rancher1-1. v1.23.17-rancher1-1 is none of KDM's, where 1.23 ends at 1.23.16: it is here with the
// images of 1.23.16 for people who build the hyperkube image of the last 1.23 themselves.
//
//go:embed data.json
var embedded []byte

const builtIn = "the built-in version data"

// Bounds of reading.
const (
	maxDocument = 64 << 20 // bytes; KDM's whole document has about 11 MiB
	maxVersions = 5_000    // KDM has about 400
	fetchLimit  = time.Minute
)

var limit = fetch.Limit{Bytes: maxDocument, Over: fmt.Sprintf("it has more than %d MiB", maxDocument>>20)}

const templateKeys = "templateKeys"

// document is what is read of KDM's data.json; it has more.
type document struct {
	Images         map[string]config.SystemImages `json:"K8sVersionRKESystemImages"`
	ServiceOptions map[string]ServiceOptions      `json:"K8sVersionServiceOptions"`
	Templates      map[string]map[string]string   `json:"K8sVersionedTemplates"`
	Info           map[string]Info                `json:"K8sVersionInfo"`
	Defaults       map[string]string              `json:"RKEDefaultK8sVersions"`
	Docker         map[string][]string            `json:"K8sVersionDockerInfo"`
}

// Options of Load.
type Options struct {
	// Transport fetches; nil takes http.DefaultTransport.
	Transport http.RoundTripper
	// Copy is a file that keeps the last good data of an address, for the time when it does not answer; "" keeps none.
	Copy string
	// Logger gets the reason when Copy could not be written; it is needed with Copy.
	Logger *slog.Logger
}

// Load reads the data of a file or an http(s) address, the value of RANCHER_METADATA_URL; "" has the embedded ones. The error says why the data could
// not be had; where a copy of before is used, Stale says it instead.
func Load(ctx context.Context, location string, o Options) (*Data, error) {
	switch {
	case location == "":
		d, err := Read(builtIn, embedded)
		if err == nil {
			d.rest = sync.OnceValue(unpack)
		}
		return d, err
	case !fetch.IsAddress(location):
		text, err := readFile(location)
		if err != nil {
			return nil, err
		}
		return Read(location, text)
	}
	where := fetch.Shown(location)
	answer, err := fetch.Get(ctx, fetch.Request{Address: location, Limit: limit, Within: fetchLimit, Transport: o.Transport})
	if err != nil {
		err = fmt.Errorf("fetch version data from %s: %w", where, err)
	} else {
		var d *Data
		if d, err = Read(where, answer.Text); err == nil {
			if fault := keep(o.Copy, location, answer.Text); fault != nil {
				o.Logger.Warn("the copy of the version data for the time without a network could not be written", "error", fault)
			}
			return d, nil
		}
	}
	if d := kept(o.Copy, location); d != nil && ctx.Err() == nil {
		d.Stale = err.Error()
		return d, nil
	}
	return nil, err
}

// Read reads a document of KDM's. source is named in errors. A document that is not right as a whole is refused.
func Read(source string, text []byte) (*Data, error) {
	d := &Data{Source: source}
	if err := json.Unmarshal(text, &d.doc); err != nil {
		return nil, fmt.Errorf("read %s: %w", source, jsonfault.Plain(err))
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("read %s: %w", source, err)
	}
	d.list = slices.Collect(maps.Keys(d.doc.Images))
	newestFirst(d.list)
	return d, nil
}

func newestFirst(list []string) {
	slices.SortFunc(list, func(a, b string) int {
		v, _ := Parse(a) // check has looked
		w, _ := Parse(b)
		return w.Compare(v)
	})
}

func (d *Data) check() error {
	switch n := len(d.doc.Images); {
	case n == 0:
		return errors.New("it has no K8sVersionRKESystemImages; expected data of KDM's branches up to 2.11, which have RKE1")
	case n > maxVersions:
		return fmt.Errorf("K8sVersionRKESystemImages has %d versions, at most %d are read", n, maxVersions)
	}
	for _, version := range slices.Sorted(maps.Keys(d.doc.Images)) {
		images := d.doc.Images[version]
		if _, ok := Parse(version); !ok || !strings.HasPrefix(version, "v") {
			return fmt.Errorf("K8sVersionRKESystemImages: %.60q is not a version such as v1.30.5-rancher1-1", version)
		}
		if images.Kubernetes == "" || images.Etcd == "" || images.Alpine == "" {
			return fmt.Errorf("K8sVersionRKESystemImages.%s: has no kubernetes, etcd or alpine image", version)
		}
	}
	for _, line := range slices.Sorted(maps.Keys(d.doc.Docker)) {
		for i, text := range d.doc.Docker[line] {
			if _, ok := Parse(strings.TrimSuffix(text, ".x")); !ok {
				return fmt.Errorf("K8sVersionDockerInfo.%s[%d]: %.40q is not a version such as 20.10.x", line, i, text)
			}
		}
	}
	return nil
}

// copied is the last good copy of an address.
type copied struct {
	Location string          `json:"location"`
	Document json.RawMessage `json:"document"`
}

// keep writes the copy beside its place and renames it. It has the address, which may hold a password.
func keep(file, location string, text []byte) error {
	if file == "" {
		return nil
	}
	content, err := json.Marshal(copied{location, text})
	if err != nil {
		return fmt.Errorf("write %s: %w", file, jsonfault.Plain(err))
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*") // readable for its owner alone
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", file, err), os.Remove(f.Name()))
	}
	return nil
}

// kept is the last good copy of an address, nil without a usable one.
func kept(file, location string) *Data {
	if file == "" {
		return nil
	}
	text, err := readFile(file)
	if err != nil {
		return nil
	}
	var c copied
	if json.Unmarshal(text, &c) != nil || c.Location != location {
		return nil
	}
	d, err := Read(fetch.Shown(location), c.Document)
	if err != nil {
		return nil
	}
	return d
}

func readFile(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read version data: %w", err)
	}
	defer f.Close()
	text, err := limit.Read(f)
	if err != nil {
		return nil, fmt.Errorf("read version data of %s: %w", file, err)
	}
	return text, nil
}
