package store

// This file holds writes: one etcd transaction on conditions each.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

type opKind int

const (
	creating opKind = iota + 1
	updating
	deleting
)

// String is the act, for errors.
func (k opKind) String() string {
	switch k {
	case creating:
		return "create"
	case updating:
		return "update"
	default:
		return "delete"
	}
}

// Op is one write of a Commit. Make it with Creating, Updating or Deleting of a
// Collection.
type Op struct {
	collection Bindable
	kind       opKind
	key        string
	revision   int64
	value      any
	lease      *Lease // nil: the document stays
}

// Creating writes a document under a key that has none. Once it is written its value is
// shared with all readers; see Document.
func (c *Collection[T]) Creating(key string, v T) Op {
	return Op{collection: c, kind: creating, key: key, value: v}
}

// Updating replaces a document that is still at d.Revision. Once it is written its value
// is shared with all readers; see Document.
func (c *Collection[T]) Updating(d Document[T]) Op {
	return Op{collection: c, kind: updating, key: d.Key, revision: d.Revision, value: d.Value}
}

// Deleting removes a document that is still at the revision, or at any when it is 0.
func (c *Collection[T]) Deleting(key string, revision int64) Op {
	return Op{collection: c, kind: deleting, key: key, revision: revision}
}

// maxKeyLength bounds a document's key, in bytes.
const maxKeyLength = 1024

func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("the key is empty")
	case len(key) > maxKeyLength:
		return fmt.Errorf("the key is %d bytes long, at most %d are allowed", len(key), maxKeyLength)
	case !utf8.ValidString(key):
		return errors.New("the key is not UTF-8")
	}
	for _, r := range key {
		if unicode.IsControl(r) {
			return fmt.Errorf("the key %q holds a control character", key)
		}
	}
	return nil
}

// Commit performs all ops in one etcd transaction, or none, and returns its revision
// after the view has reached it. It returns *ExistsError, *NotFoundError,
// *ConflictError or, below a Fenced context, *DeposedError of the first condition that
// did not hold, and what Options.Check returns as it is. Any other error leaves open whether the transaction was performed.
func (s *Store) Commit(ctx context.Context, ops ...Op) (int64, error) {
	if err := s.Err(); err != nil {
		return 0, fmt.Errorf("write to the store: %w", err)
	}
	leader, fenced := fenceOf(ctx)
	if fenced {
		if err := leader.holds(s); err != nil {
			return 0, err
		}
	}
	if len(ops) == 0 {
		return s.Revision(), nil
	}
	t := transaction{}
	for _, op := range ops {
		if err := s.add(&t, op); err != nil {
			return 0, err
		}
	}
	if check := s.options.Check; check != nil {
		ended, err := check(ctx, t.asked)
		if err != nil {
			return 0, err
		}
		defer ended()
	}
	if fenced {
		t.conditions = append(t.conditions, clientv3.Compare(clientv3.CreateRevision(leader.key), "=", leader.revision))
		t.reads = append(t.reads, clientv3.OpGet(leader.key, clientv3.WithKeysOnly()))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.writeLimit, errWriteLimit)
	defer cancel()
	defer context.AfterFunc(s.alive, cancel)() // an etcd that has failed may never answer
	defer s.flights.begin(t.flights)()
	response, err := s.send(ctx, t)
	if err != nil {
		if errors.Is(context.Cause(ctx), errWriteLimit) {
			err = fmt.Errorf("%w: %w", errWriteLimit, context.DeadlineExceeded)
		}
		return 0, s.explain(ops, err)
	}
	if !response.succeeded {
		seen, refused := refusal(ops, leader, response.responses)
		// A caller that reads after a refusal to find out what stands in the way has to see it.
		if err := s.await(ctx, seen); err != nil {
			return 0, fmt.Errorf("%w; and the view does not show why: %w", refused, err)
		}
		return 0, refused
	}
	revision := response.revision
	if err := s.await(ctx, revision); err != nil {
		return 0, fmt.Errorf("%s/%s and what belongs to it is written at revision %d, but the view is not there yet: %w",
			ops[0].collection.collectionName(), ops[0].key, revision, err)
	}
	s.wrote(t.bytes, revision)
	return revision, nil
}

// transaction is what goes to etcd; reads find out which condition did not hold and
// are in the order of the ops.
type transaction struct {
	keys       map[string]struct{}
	conditions []clientv3.Cmp
	writes     []clientv3.Op
	reads      []clientv3.Op
	flights    []*flight
	asked      []Write
	bytes      int // of all records
	leased     bool
}

func (s *Store) add(t *transaction, op Op) error {
	if op.collection == nil {
		return errors.New("write to the store: an Op was not made by a collection")
	}
	name := op.collection.collectionName()
	if s.collections[name] != op.collection {
		return fmt.Errorf("%s %s/%s: the collection is not bound to this store", op.kind, name, op.key)
	}
	if err := checkKey(op.key); err != nil {
		return fmt.Errorf("%s a document of %s: %w", op.kind, name, err)
	}
	key := documentKey(name, op.key)
	if _, ok := t.keys[key]; ok {
		return fmt.Errorf("%s %s/%s: one transaction cannot write a document twice", op.kind, name, op.key)
	}
	if t.keys == nil {
		t.keys = make(map[string]struct{})
	}
	t.keys[key] = struct{}{}
	t.reads = append(t.reads, clientv3.OpGet(key, clientv3.WithKeysOnly()))
	switch {
	case op.kind == creating:
		t.conditions = append(t.conditions, clientv3.Compare(clientv3.CreateRevision(key), "=", 0))
	case op.kind == deleting && op.revision == 0:
		t.conditions = append(t.conditions, clientv3.Compare(clientv3.CreateRevision(key), ">", 0))
	case op.revision <= 0:
		return fmt.Errorf("%s %s/%s: the document has no revision: read it first", op.kind, name, op.key)
	default:
		t.conditions = append(t.conditions, clientv3.Compare(clientv3.ModRevision(key), "=", op.revision))
	}
	if op.kind == deleting {
		t.writes = append(t.writes, clientv3.OpDelete(key))
		return nil
	}
	encoded, size, err := s.encode(op, key)
	if err != nil {
		return fmt.Errorf("%s %s/%s: %w", op.kind, name, op.key, err)
	}
	put := clientv3.OpPut(key, "", op.putOptions()...)
	put.WithValueBytes(encoded) // OpPut would copy it
	t.writes = append(t.writes, put)
	t.bytes += len(encoded)
	t.leased = t.leased || op.lease != nil
	t.flights = append(t.flights, &flight{key: key, encoded: encoded, size: size, value: op.value})
	t.asked = append(t.asked, op.write(size))
	return nil
}

// Appender is a document that writes its own JSON, faster or shorter than encoding/json
// would. It is read by encoding/json.
type Appender interface {
	AppendJSON(b []byte) ([]byte, error)
}

// encode is the record of a document, sealed where it has to be, and the size of its JSON.
func (s *Store) encode(op Op, key string) (record []byte, size int, err error) {
	buffer, ok := s.buffers.Get().(*[]byte)
	if !ok {
		buffer = new([]byte)
	}
	defer s.buffers.Put(buffer)
	plain, err := appendJSON((*buffer)[:0], op.value)
	if err != nil {
		return nil, 0, err
	}
	if cap(plain) <= maxPooled {
		*buffer = plain
	}
	if !op.collection.isSensitive() {
		return bytes.Clone(plain), len(plain), nil
	}
	record, err = s.keys.Seal(key, plain)
	return record, len(plain), err
}

// maxPooled is the largest buffer that is kept for other records.
const maxPooled = 64 << 10

func appendJSON(b []byte, v any) ([]byte, error) {
	if a, ok := v.(Appender); ok {
		return a.AppendJSON(b)
	}
	encoded, err := json.Marshal(v)
	return append(b, encoded...), err
}

// refusal is the error of the first condition that did not hold, after the revision of the
// document that was in the way; 0 when there is none.
func refusal(ops []Op, leader *Leadership, responses []*pb.ResponseOp) (seen int64, refused error) {
	if leader != nil {
		kvs := responses[len(ops)].GetResponseRange().Kvs
		if len(kvs) == 0 || kvs[0].CreateRevision != leader.revision {
			leader.lose()
			return 0, &DeposedError{Name: leader.name, Identity: leader.identity}
		}
	}
	for i, op := range ops {
		var current int64
		if kvs := responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
			current = kvs[0].ModRevision
		}
		name := op.collection.collectionName()
		switch {
		case op.kind == creating && current != 0:
			return current, &ExistsError{Collection: name, Key: op.key}
		case op.kind == creating:
		case current == 0:
			return 0, &NotFoundError{Collection: name, Key: op.key}
		case op.revision != 0 && op.revision != current:
			return current, &ConflictError{Collection: name, Key: op.key, Wanted: op.revision, Current: current}
		}
	}
	return 0, errors.New("write to the store: etcd refused the transaction though all its conditions hold")
}

// explain says what was being written, and what to do where etcd's own words do not.
func (s *Store) explain(ops []Op, err error) error {
	if ended := s.Err(); ended != nil {
		err = ended
	}
	what := fmt.Sprintf("%s %s/%s", ops[0].kind, ops[0].collection.collectionName(), ops[0].key)
	if more := len(ops) - 1; more > 0 {
		what += fmt.Sprintf(" and %d more", more)
	}
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%s: the database is at its size limit; a restart makes room in the embedded etcd, an external one has to be compacted, defragmented and its alarm disarmed: %w", what, err)
	case errors.Is(err, rpctypes.ErrRequestTooLarge), errors.Is(err, rpctypes.ErrTooManyOps):
		return &TooLargeError{fmt.Errorf("%s: this is more than the store takes at a time, so give it in parts; an external etcd takes more with greater --max-txn-ops and --max-request-bytes: %w", what, err)}
	}
	return fmt.Errorf("%s: %w", what, err)
}
