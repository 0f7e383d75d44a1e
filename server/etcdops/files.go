// The files of snapshots, read from where they are: from the host of a machine, through its tunnel, or from the cluster's bucket.
// What is on one host alone is lost with it, and a person who wants it elsewhere need not have a way to the host.

package etcdops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/installers/snapshots/bucket"
	"github.com/drover-project/drover/installers/snapshots/etcddata"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
)

// maxRefusal is how much of a host's refusal is shown, in bytes.
const maxRefusal = 512

// Files opens the files of snapshots of k3s and RKE2.
type Files struct {
	State *state.State
	// Ask sends GET path with a header to the agent on a machine's host, and Tunnel is what is known of the way there.
	Ask    func(ctx context.Context, subject records.Subject, path string, header http.Header) (*http.Response, error)
	Tunnel func(records.Subject) observed.Tunnel
	// Way is the way to buckets, as bucket.Config has it.
	Way func(*http.Transport)
}

// FileRequest is the file that the caller wants.
type FileRequest struct {
	// Snapshot is its name, and Machine the machine on whose host it is, records.SnapshotInS3, or empty for any that has it.
	Snapshot, Machine string
	// Offset is how many bytes of it the caller has already, and Tag which file they are of; 0 and empty for none.
	Offset int64
	Tag    string
	// Foreign says that the caller may have Foreign snapshots, too.
	Foreign bool
}

// NoFileError is that a file cannot be had. The reasons are those of each place where it should be.
type NoFileError struct {
	Reason string
	// Away says that it may be had later, when a host is there again or the bucket answers.
	Away bool
}

func (e *NoFileError) Error() string { return e.Reason }

// File is the file of a snapshot, of which nothing was read yet. Close it.
type File struct {
	Snapshot records.Snapshot
	// Size is that of the whole file in bytes, and Offset where what is sent begins: 0, or what the request had.
	Size, Offset int64
	// Tag is that of the file as it is now, by which a request continues; empty where none can.
	Tag string
	// SHA256 is that of the whole file in hex; empty where it is not known.
	SHA256 string

	send  func(ctx context.Context, to io.Writer) error
	close func()
}

// Send writes the file to a writer, from its Offset. Nil means that all of it was written. The errors are those of the writer and of the source.
func (f *File) Send(ctx context.Context, to io.Writer) error { return f.send(ctx, to) }

// Close lets the file go.
func (f *File) Close() { f.close() }

// Open opens the file of a snapshot of a cluster at the first place that gives it: hosts that are connected, other hosts, S3.
// The error is a *NoFileError when no place does.
func (f *Files) Open(ctx context.Context, c records.Cluster, request FileRequest) (*File, error) {
	copies := f.copies(c, request)
	if len(copies) == 0 {
		reason := fmt.Sprintf("cluster %s has no snapshot %.80q", c.Name, request.Snapshot)
		if request.Machine != "" {
			reason += " at " + request.Machine
		}
		return nil, &NoFileError{Reason: reason + "; drover snapshots ls " + c.Name + " shows those that there are"}
	}
	var reasons []string
	away := false
	for _, s := range copies {
		opened, err := f.at(ctx, c, s, request)
		if err == nil {
			return opened, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		none, known := errors.AsType[*NoFileError](err)
		away = away || !known || none.Away
		reasons = append(reasons, err.Error())
	}
	return nil, &NoFileError{Reason: fmt.Sprintf("snapshot %s cannot be had: %s", request.Snapshot, strings.Join(reasons, "; ")), Away: away}
}

// copies are the records of a snapshot, the likeliest place first: where the request began, hosts that are connected, other hosts, S3.
func (f *Files) copies(c records.Cluster, request FileRequest) []records.Snapshot {
	var all []records.Snapshot
	for _, d := range Known(f.State, c, request.Foreign) {
		if d.Value.Name() == request.Snapshot && (request.Machine == "" || d.Value.Machine == request.Machine) {
			all = append(all, d.Value)
		}
	}
	rank := func(s records.Snapshot) int {
		_, began := tagAt(s.Machine, request.Tag)
		switch m, ok := f.State.Machines.Get(c.Namespace + "/" + s.Machine); {
		case s.Fault != "":
			return 4
		case began:
			return 0
		case s.Machine == records.SnapshotInS3:
			return 3
		case ok && f.Tunnel(m.Value.Subject()).Connected:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(all, func(a, b records.Snapshot) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Missing.Compare(b.Missing), cmp.Compare(a.Machine, b.Machine))
	})
	return all
}

// at opens the file at one place.
func (f *Files) at(ctx context.Context, c records.Cluster, s records.Snapshot, request FileRequest) (*File, error) {
	opened, err := (*File)(nil), error(nil)
	switch {
	case s.Fault != "":
		return nil, &NoFileError{Reason: placeOf(s) + ": it could not be taken: " + s.Fault}
	case s.Machine == records.SnapshotInS3:
		opened, err = f.inS3(ctx, c, s)
	default:
		opened, err = f.onHost(ctx, c, s, request)
	}
	if err != nil {
		return nil, err
	}
	if wrong := sizeFault(opened); wrong != "" {
		opened.Close()
		return nil, &NoFileError{Reason: placeOf(s) + ": " + wrong}
	}
	return opened, nil
}

// sizeFault says what is wrong with the size of a file; empty for nothing.
func sizeFault(f *File) string {
	switch {
	case f.Size <= 0:
		return "the file is empty"
	case f.Size > etcddata.MaxSize:
		return fmt.Sprintf("the file has %d bytes, and more than %d are not a snapshot", f.Size, int64(etcddata.MaxSize))
	case f.Snapshot.Size > 0 && f.Size != f.Snapshot.Size:
		return fmt.Sprintf("the file has %d bytes, and the cluster lists it with %d: it was cut, or is another one", f.Size, f.Snapshot.Size)
	}
	return ""
}

func placeOf(s records.Snapshot) string {
	if s.Machine == records.SnapshotInS3 {
		return "in S3"
	}
	return "on machine " + s.Machine
}

// onHost opens the file on the host that has it, by the agent there, which knows its directory.
func (f *Files) onHost(ctx context.Context, c records.Cluster, s records.Snapshot, request FileRequest) (*File, error) {
	d, there := f.State.Machines.Get(s.Cluster.Namespace() + "/" + s.Machine)
	if !there {
		return nil, &NoFileError{Reason: placeOf(s) + ": the cluster has no such machine any more; if its host is still there, copy " + s.File + " from it"}
	}
	header := http.Header{}
	if tag, began := tagAt(s.Machine, request.Tag); began && request.Offset > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", request.Offset))
		header.Set("If-Range", strconv.Quote(tag))
	}
	q := url.Values{"runtime": {string(versions.RuntimeOf(c.Spec.KubernetesVersion))}, "name": {s.Name()}}
	answer, err := f.Ask(ctx, d.Value.Subject(), "/v1/snapshot?"+q.Encode(), header) //nolint:bodyclose // File.Close does
	if err != nil {
		return nil, &NoFileError{Reason: placeOf(s) + ": " + f.unreached(d.Value, err), Away: true}
	}
	opened := &File{Snapshot: s, Size: answer.ContentLength, SHA256: s.SHA256, close: func() { answer.Body.Close() }}
	opened.send = func(_ context.Context, to io.Writer) error {
		_, err := io.Copy(to, io.LimitReader(answer.Body, opened.Size-opened.Offset))
		return err
	}
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusPartialContent:
		opened.Offset = request.Offset
		opened.Size += request.Offset
	case http.StatusRequestedRangeNotSatisfiable: // the caller has all of it, or another file
		answer.Body.Close()
		return f.onHost(ctx, c, s, FileRequest{Snapshot: request.Snapshot})
	default:
		defer answer.Body.Close()
		return nil, hostRefusal(s, answer)
	}
	if tag, err := strconv.Unquote(answer.Header.Get("ETag")); err == nil && tag != "" {
		opened.Tag = s.Machine + "." + tag
	}
	return opened, nil
}

// tagAt is the host's part of a File.Tag, if that is of the host of a machine.
func tagAt(machine, tag string) (string, bool) { return strings.CutPrefix(tag, machine+".") }

// Away says why the file of a snapshot on a host cannot be had now, by what is known of the way there; empty when it may be.
func (f *Files) Away(s records.Snapshot) string {
	d, there := f.State.Machines.Get(s.Cluster.Namespace() + "/" + s.Machine)
	if t := f.Tunnel(d.Value.Subject()); there && !t.Connected {
		return placeOf(s) + ": " + f.unreached(d.Value, nil)
	}
	return ""
}

// unreached says since when a host is away, or what became of the question.
func (f *Files) unreached(m records.Machine, err error) string {
	t := f.Tunnel(m.Subject())
	switch {
	case t.Connected:
		return err.Error()
	case t.Since.IsZero():
		return "its host has not been connected; drover's own agent has a tunnel when it runs, the original agent has none"
	}
	return "its host has not been connected since " + t.Since.UTC().Format(time.RFC3339) + "; switch it on, or see there what systemctl status rancher-system-agent says"
}

func hostRefusal(s records.Snapshot, answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	said := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return &NoFileError{Reason: placeOf(s) + ": the way to its host was lost", Away: true}
	case answer.StatusCode == http.StatusNotFound && strings.HasPrefix(said, "404 page not found"):
		return &NoFileError{Reason: placeOf(s) + ": its agent is too old to send it; update the agent, or copy " + s.File + " from the host"}
	case answer.StatusCode == http.StatusTooManyRequests:
		return &NoFileError{Reason: placeOf(s) + ": " + said, Away: true}
	case answer.StatusCode == http.StatusNotFound:
		return &NoFileError{Reason: placeOf(s) + ": the file is gone: " + said}
	}
	return &NoFileError{Reason: placeOf(s) + ": its agent does not send it: " + said}
}

// inS3 opens the file in the cluster's bucket.
func (f *Files) inS3(ctx context.Context, c records.Cluster, s records.Snapshot) (*File, error) {
	refused := func(away bool, format string, args ...any) (*File, error) {
		return nil, &NoFileError{Reason: placeOf(s) + ": " + fmt.Sprintf(format, args...), Away: away}
	}
	place, on, err := PlaceOf(f.State, c)
	switch {
	case err != nil:
		return refused(false, "%v", err)
	case !on:
		return refused(false, "the cluster has no bucket any more: give it etcd.s3 again")
	case place.AccessKey == "":
		return refused(false, "the server has no keys of the bucket: give the cluster a cloudCredentialName")
	}
	b, err := OpenBucket(place, f.Way)
	if err != nil {
		return refused(false, "%v", err)
	}
	o, err := b.Find(ctx, s.Name())
	if err != nil || o == nil {
		b.Close()
		if err != nil {
			return refused(true, "%v", err)
		}
		return refused(false, "%s does not have it any more", b)
	}
	return &File{
		Snapshot: s, Size: o.Size, SHA256: cmp.Or(s.SHA256, o.Sum), close: b.Close,
		send: func(ctx context.Context, to io.Writer) error { return sendObject(ctx, b, s.Name(), to) },
	}, nil
}

func sendObject(ctx context.Context, b *bucket.Bucket, name string, to io.Writer) error {
	_, err := b.Get(ctx, name, to)
	return err
}
