// Package bucket keeps files in a bucket of S3, and believes in one only after it was read back. Keys of a bucket are in requests
// that are signed with them, and nowhere else: not in sentences, not in what is printed of a Config.
//
// Names of objects are FOLDER/NAME, as rancher/rke-tools, k3s and RKE2 write them.
package bucket

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/drover-project/drover/installers/snapshots/spool"
)

// Amazon is the endpoint of who names none.
const Amazon = "s3.amazonaws.com"

const (
	// partSize is how much is sent at a time, in bytes; a snapshot of less is one request.
	partSize = 16 << 20
	// tries of a request that the endpoint could not serve, and what is between two that write, the longer the more there were.
	tries = 3
	pause = 300 * time.Millisecond
	// maxObjects bounds a list.
	maxObjects = 10_000
	// maxHeader and maxAnswer bound the header of an answer, and its body where that is not the one of an object, in bytes: a page
	// of a list has 1000 names of 1 KiB at most, and each character of them may be escaped.
	maxHeader = 64 << 10
	maxAnswer = 4 << 20
	// maxMarks bounds how many times "<" is in an answer: each object of a list has about 25 of them.
	maxMarks = 60_000
	// defaultStall is Config.Stall of who sets none.
	defaultStall = 2 * time.Minute
	// cleanLimit bounds what is taken back after a failure.
	cleanLimit = 30 * time.Second
	// sumKey is the name of the SHA-256 in hex among an object's metadata.
	sumKey = "Sha256"
)

// Lookup says where the name of a bucket stands in an address.
type Lookup int

const (
	// Auto is the host's name with Amazon, Google and Aliyun, and the path with all others.
	Auto Lookup = iota
	// DNS is BUCKET.ENDPOINT.
	DNS
	// Path is ENDPOINT/BUCKET.
	Path
)

// Config is a bucket and the way to it. Printed, it has no keys.
type Config struct {
	// Endpoint is a host or host:port; "" is Amazon.
	Endpoint string
	// Bucket is there already; Region may be left to the endpoint to say.
	Bucket, Region string
	// Folder may have "/" in it; "" is the bucket itself.
	Folder string
	// AccessKey and SecretKey are both set, or neither: then what this machine has of its own counts, in the
	// environment of AWS's tools or as a role.
	AccessKey, SecretKey string
	// CA is PEM of certificates that count beside the system's; "" is none.
	CA     string
	Lookup Lookup
	// Insecure is HTTP without TLS. SkipVerify takes any certificate.
	Insecure, SkipVerify bool
	// Way leads the transport that requests go by, such as to a proxy, or around addresses that are not to be reached. Nil is
	// the way of this machine. A role of this machine is asked for its keys by a way of its own.
	Way func(*http.Transport)
	// Stall is how long nothing may come or go before a connection counts as broken; 0 is two minutes.
	Stall time.Duration
}

// String is the place, for sentences.
func (c Config) String() string {
	place := c.Bucket
	if c.Folder != "" {
		place = path.Join(place, c.Folder)
	}
	return fmt.Sprintf("bucket %s at %s", place, c.endpoint())
}

// GoString is String: %#v has no keys either.
func (c Config) GoString() string { return c.String() }

func (c Config) endpoint() string {
	if c.Endpoint == "" {
		return Amazon
	}
	return c.Endpoint
}

// Hosts are those that requests go to: the endpoint, and the one that has the bucket's name before it.
func (c Config) Hosts() []string {
	return []string{c.endpoint(), c.Bucket + "." + c.endpoint()}
}

// Bucket is open. Its methods may be called from many goroutines.
type Bucket struct {
	config Config
	client *minio.Client
	// writer tries once: the client would begin a body again while an earlier try still reads it.
	writer *minio.Client
	web    *http.Transport
}

// Object is a file in a bucket.
type Object struct {
	// Name is without the folder.
	Name string
	Size int64 // bytes
	// Changed is when it was put there, by the endpoint's clock.
	Changed time.Time
	// Sum is its SHA-256 in hex; "" where it was neither read nor told.
	Sum string
	// Meta is what who put it there wrote beside it, by names in canonical form. A List has none.
	Meta map[string]string
}

// Open looks at a config, without a request yet. Close the bucket. The error says what of the config does not go together.
func Open(c Config) (*Bucket, error) {
	c.Stall = cmp.Or(c.Stall, defaultStall)
	c.Folder = strings.Trim(c.Folder, "/")
	if (c.AccessKey == "") != (c.SecretKey == "") {
		return nil, fmt.Errorf("%s: there is one key of two: give the access key and the secret key, or neither", c)
	}
	if c.Bucket == "" {
		return nil, errors.New("a bucket of S3 has a name: there is none")
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.SkipVerify} // #nosec G402 -- the choice of the person who named the bucket
	if c.CA != "" {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM([]byte(c.CA)) {
			return nil, fmt.Errorf("%s: the CA of the endpoint is not a certificate in PEM", c)
		}
		trust.RootCAs = roots
	}
	web := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: c.Stall}).DialContext, TLSClientConfig: trust, TLSHandshakeTimeout: c.Stall,
		MaxIdleConnsPerHost: 4, IdleConnTimeout: c.Stall, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
	}
	if c.Way != nil {
		c.Way(web)
	}
	web.DialContext = impatience(web.DialContext, c.Stall)
	var keys *credentials.Credentials
	if c.AccessKey != "" {
		keys = credentials.NewStaticV4(c.AccessKey, c.SecretKey, "")
	} else {
		keys = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: &http.Client{Timeout: c.Stall}}})
	}
	o := minio.Options{
		Creds: keys, Secure: !c.Insecure, Transport: bounded{web}, Region: c.Region, MaxRetries: tries,
		BucketLookup: map[Lookup]minio.BucketLookupType{Auto: minio.BucketLookupAuto, DNS: minio.BucketLookupDNS, Path: minio.BucketLookupPath}[c.Lookup],
	}
	client, err := minio.New(c.endpoint(), &o)
	o.MaxRetries = 1
	writer, worse := minio.New(c.endpoint(), &o)
	if err = cmp.Or(err, worse); err != nil {
		return nil, fmt.Errorf("%s: the endpoint is a host, or host:port, without https:// before it: %w", c, err)
	}
	return &Bucket{config: c, client: client, writer: writer, web: web}, nil
}

// Close ends the idle connections.
func (b *Bucket) Close() { b.web.CloseIdleConnections() }

// String is the place, for sentences.
func (b *Bucket) String() string { return b.config.String() }

func (b *Bucket) key(name string) string { return path.Join(b.config.Folder, name) }

// Find is the object of a name; nil is none. The error is an *Error with what the storage answered; also where the bucket itself does not exist.
func (b *Bucket) Find(ctx context.Context, name string) (*Object, error) {
	info, err := b.client.StatObject(ctx, b.config.Bucket, b.key(name), minio.StatObjectOptions{})
	if is := minio.ToErrorResponse(err); err != nil && is.Code == minio.NoSuchKey {
		return nil, b.exists(ctx)
	}
	if err != nil {
		return nil, b.explain(err, "look for "+name)
	}
	o := object(name, info)
	return &o, nil
}

// exists is an error when there is no bucket, of which the answer to a question for an object says nothing.
func (b *Bucket) exists(ctx context.Context) error {
	is, err := b.client.BucketExists(ctx, b.config.Bucket)
	switch {
	case err != nil:
		return b.explain(err, "look for the bucket")
	case !is:
		return b.explain(minio.ErrorResponse{Code: minio.NoSuchBucket}, "look for the bucket")
	}
	return nil
}

func object(name string, info minio.ObjectInfo) Object {
	return Object{Name: name, Size: info.Size, Changed: info.LastModified, Sum: info.UserMetadata[sumKey], Meta: info.UserMetadata}
}

// List are the objects of the folder, without those below it, sorted by name. The error is an *Error, or says that there are too many.
func (b *Bucket) List(ctx context.Context) ([]Object, error) {
	ctx, cancel := context.WithCancel(ctx) // ends the list where it is left
	defer cancel()
	prefix := ""
	if b.config.Folder != "" {
		prefix = b.config.Folder + "/"
	}
	var all []Object
	for info := range b.client.ListObjectsIter(ctx, b.config.Bucket, minio.ListObjectsOptions{Prefix: prefix}) {
		if info.Err != nil {
			return nil, b.explain(info.Err, "list what is there")
		}
		name := strings.TrimPrefix(info.Key, prefix)
		if name == "" || strings.HasSuffix(name, "/") {
			continue
		}
		if all = append(all, object(name, info)); len(all) > maxObjects {
			return nil, fmt.Errorf("%s has more than %d objects: give snapshots a folder of their own", b, maxObjects)
		}
	}
	if ctx.Err() != nil { // which ends a list as if that were all
		return nil, b.explain(context.Cause(ctx), "list what is there")
	}
	return all, nil
}

// Put writes an object of so many bytes, whose SHA-256 is sum in hex, and reads it back: nil means that the bucket has it and gives
// it back. One of this name that has the same bytes is left as it is; another one is an error. What does not read as it was written
// is removed again.
func (b *Bucket) Put(ctx context.Context, name string, from io.ReaderAt, size int64, sum string) error {
	was, err := b.Find(ctx, name)
	if err != nil {
		return err
	}
	if was != nil {
		is, err := b.Get(ctx, name, io.Discard)
		if err == nil && is.Sum == sum {
			return nil
		}
		return fmt.Errorf("%s has another %s already, of %d bytes and %s: give another name, or remove it there", b, name, was.Size, was.Changed.UTC().Format(time.RFC3339))
	}
	err = b.write(ctx, name, from, size, sum)
	if err != nil {
		b.takeBack(ctx, func(ctx context.Context) error {
			return b.client.RemoveIncompleteUpload(ctx, b.config.Bucket, b.key(name))
		})
		return b.explain(err, "put "+name+" there")
	}
	is, err := b.Get(ctx, name, io.Discard)
	if err != nil {
		return fmt.Errorf("it took %s, but does not give it back, without which it is not a snapshot: %w", name, err)
	}
	if is.Size != size || is.Sum != sum {
		b.takeBack(ctx, func(ctx context.Context) error { return b.Remove(ctx, name) })
		return fmt.Errorf("%s gives back %d bytes of %s where %d were written, or others: it was removed again; see whether the endpoint is full, or ends connections",
			b, is.Size, name, size)
	}
	return nil
}

// write sends an object, again when the endpoint could not take it.
func (b *Bucket) write(ctx context.Context, name string, from io.ReaderAt, size int64, sum string) error {
	source := &source{ReaderAt: from}
	for try := 1; ; try++ {
		_, err := b.writer.PutObject(ctx, b.config.Bucket, b.key(name), io.NewSectionReader(source, 0, size), size, minio.PutObjectOptions{
			ContentType: "application/zip", PartSize: partSize, NumThreads: 1, SendContentMd5: true, UserMetadata: map[string]string{sumKey: sum},
		})
		if failed := source.failed.Load(); failed != nil {
			return *failed
		}
		answered := minio.ErrorResponse{}
		refused := errors.As(err, &answered) && answered.StatusCode < http.StatusInternalServerError
		if err == nil || try == tries || refused || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(time.Duration(try) * pause):
		case <-ctx.Done():
		}
	}
}

// source keeps why it could not be read: the client's error about it is one among those of the endpoint.
type source struct {
	io.ReaderAt
	failed atomic.Pointer[sourceError]
}

func (s *source) ReadAt(b []byte, at int64) (int, error) {
	n, err := s.ReaderAt.ReadAt(b, at)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed.CompareAndSwap(nil, &sourceError{err})
	}
	return n, err
}

// sourceError is that what is to be written cannot be read here.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

// takeBack does what it can after a failure, even when the context has ended. The failure is what is reported.
func (b *Bucket) takeBack(ctx context.Context, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanLimit)
	defer cancel()
	_ = do(ctx)
}

// Get writes an object to a writer. Nil means that it is whole: it has the size, and the checksum if there is one, that it was
// put there with. The error is that of the writer, an *Error with what the storage answered, or says that what came is damaged.
func (b *Bucket) Get(ctx context.Context, name string, to io.Writer) (Object, error) {
	from, err := b.client.GetObject(ctx, b.config.Bucket, b.key(name), minio.GetObjectOptions{})
	if err != nil {
		return Object{}, b.explain(err, "read "+name)
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return Object{}, b.explain(err, "read "+name)
	}
	o := object(name, info)
	counted := spool.Counted(to)
	if _, err := io.Copy(counted, io.LimitReader(from, o.Size+1)); err != nil {
		if counted.Failed != nil {
			return o, counted.Failed
		}
		return o, b.explain(err, fmt.Sprintf("read %s, after %d bytes", name, counted.Size))
	}
	sum := counted.Sum()
	if counted.Size != o.Size || o.Sum != "" && o.Sum != sum {
		return o, fmt.Errorf("%s gives %d bytes of %s with sha256 %s, where %d with %s were put: it is damaged there, or on its way", b, counted.Size, name, sum, o.Size, o.Sum)
	}
	o.Sum = sum
	return o, nil
}

// Remove removes an object. A missing object is no error.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	if err := b.client.RemoveObject(ctx, b.config.Bucket, b.key(name), minio.RemoveObjectOptions{}); err != nil {
		return b.explain(err, "remove "+name)
	}
	return nil
}
