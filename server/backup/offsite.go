// A bucket of S3 that gets each backup beside the directory: what it is like, what goes there, and what comes back.

package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/snapshots/bucket"
	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/server/clusterspec"
)

// Offsite is a bucket for backups. Printed, it has no keys.
type Offsite struct{ config bucket.Config }

// offsiteFile is the form of the file that describes it: the fields of etcd.s3 of a cluster, and the keys.
type offsiteFile struct {
	Endpoint         string `json:"endpoint"`
	EndpointCA       string `json:"endpointCA"`
	SkipSSLVerify    bool   `json:"skipSSLVerify"`
	Bucket           string `json:"bucket"`
	Region           string `json:"region"`
	Folder           string `json:"folder"`
	BucketLookupType string `json:"bucketLookupType"`
	AccessKey        string `json:"accessKey"`
	SecretKey        string `json:"secretKey"`
}

// ReadOffsite reads the file of a bucket, YAML or JSON, which its owner alone may read. An error repeats none of its values.
func ReadOffsite(path string) (*Offsite, error) {
	text, err := readSecret(path)
	if err != nil {
		return nil, fmt.Errorf("read the bucket of backups: %w", err)
	}
	doc, err := strictyaml.ReadOne(strictyaml.Source{File: path, Private: true}, text)
	if err != nil {
		return nil, err
	}
	var f offsiteFile
	if errs := doc.Decode(&f, strictyaml.Options{}); len(errs) > 0 {
		return nil, errs
	}
	s3 := clusterspec.S3{
		Endpoint: f.Endpoint, EndpointCA: f.EndpointCA, SkipSSLVerify: f.SkipSSLVerify, Bucket: f.Bucket, Region: f.Region, Folder: f.Folder, BucketLookupType: f.BucketLookupType,
	}
	if faults := s3.Faults(); len(faults) > 0 {
		field := slices.Sorted(maps.Keys(faults))[0]
		return nil, fmt.Errorf("%s: %s: %s", path, field, faults[field])
	}
	config := bucket.Config{
		Endpoint: f.Endpoint, Bucket: f.Bucket, Region: f.Region, Folder: f.Folder, AccessKey: f.AccessKey, SecretKey: f.SecretKey, CA: clusterspec.CleanPEM(f.EndpointCA),
		Lookup: map[string]bucket.Lookup{"dns": bucket.DNS, "path": bucket.Path}[f.BucketLookupType], SkipVerify: f.SkipSSLVerify,
	}
	b, err := bucket.Open(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	b.Close()
	return &Offsite{config}, nil
}

// String is the place, for sentences.
func (o *Offsite) String() string { return o.config.String() }

// GoString is String: %#v has no keys either.
func (o *Offsite) GoString() string { return o.String() }

// Hosts are the hosts that the bucket is asked at.
func (o *Offsite) Hosts() []string { return o.config.Hosts() }

// By is the bucket reached by a way, that of bucket.Config.
func (o *Offsite) By(way func(*http.Transport)) *Offsite {
	config := o.config
	config.Way = way
	return &Offsite{config}
}

// open opens the bucket; close it.
func (o *Offsite) open() (*bucket.Bucket, error) { return bucket.Open(o.config) }

// Put brings a file there under its own name and reads it back. A file that is there already is read back only. Then the oldest backups beyond those
// that are kept are removed; what is left is returned, newest first. The errors are those of the file and of the storage.
func (o *Offsite) Put(ctx context.Context, path string, keep int) ([]Kept, error) {
	b, err := o.open()
	if err != nil {
		return nil, err
	}
	defer b.Close()
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, f)
	if err != nil {
		return nil, err
	}
	if err := b.Put(ctx, filepath.Base(path), f, size, hex.EncodeToString(hash.Sum(nil))); err != nil {
		return nil, err
	}
	there, err := o.listIn(ctx, b)
	if err != nil {
		return nil, err
	}
	kept := min(keep, len(there))
	for _, old := range there[kept:] {
		if err := b.Remove(ctx, old.Name); err != nil {
			return nil, err
		}
	}
	return there[:kept], nil
}

// listIn is the backups in the bucket, newest first. Other objects are none of them.
func (o *Offsite) listIn(ctx context.Context, b *bucket.Bucket) (all []Kept, err error) {
	objects, err := b.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, one := range objects {
		if at, ours := madeAt(one.Name); ours {
			all = append(all, Kept{Name: one.Name, Made: at, Size: one.Size})
		}
	}
	slices.SortFunc(all, func(a, b Kept) int { return b.Made.Compare(a.Made) })
	return all, nil
}

// Newest asks fetch for the newest backup.
const Newest = "newest"

// namedLimit is how many backups an error names.
const namedLimit = 10

// fetch writes the backup of a name, or the newest, to a file of that name in a directory, mode 0600, and returns its path.
func (o *Offsite) fetch(ctx context.Context, name, dir string) (path string, err error) {
	b, err := o.open()
	if err != nil {
		return "", err
	}
	defer b.Close()
	there, err := o.listIn(ctx, b)
	if err != nil {
		return "", err
	}
	if name == Newest && len(there) > 0 {
		name = there[0].Name
	}
	if !slices.ContainsFunc(there, func(k Kept) bool { return k.Name == name }) {
		return "", fmt.Errorf("%s has no backup %.100q; %s", o, name, named(there))
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = b.Get(ctx, name, f)
	return f.Name(), errors.Join(err, f.Close())
}

// named names backups.
func named(there []Kept) string {
	if len(there) == 0 {
		return "there is none at all"
	}
	var names []string
	for _, k := range there[:min(namedLimit, len(there))] {
		names = append(names, k.Name)
	}
	return "the newest are " + strings.Join(names, ", ")
}

// OffsiteStatus is how a bucket of backups stands.
type OffsiteStatus = apitypes.BackupBucket
