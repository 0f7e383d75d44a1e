package store

// This file holds changes of all documents at once, performed by one server at a time: migrations to a newer schema, each a function of all documents,
// and to a newer key of the encryption at rest.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/server/store/keyring"
)

// batchSize is how many documents one transaction of a migration writes: an external
// etcd takes 128 operations unless configured otherwise.
const batchSize = 100

// batch is how many of the writes go into the next transaction: clusters with manifests are large.
func batch(writes []clientv3.Op) int {
	n, size := 0, 0
	for ; n < min(batchSize, len(writes)); n++ {
		if size += len(writes[n].ValueBytes()); n > 0 && size > maxGroupBytes {
			break
		}
	}
	return n
}

// migrate performs the migrations that the data has not seen, one server at a time, and those again whose work an older server may have undone.
func (s *Store) migrate(ctx context.Context) error {
	_, done, err := s.storedSchema(ctx)
	if err != nil || done {
		return err
	}
	leader, err := s.Campaign(ctx, "migration", fmt.Sprintf("drover %s", drover.Version))
	if err != nil {
		return err
	}
	defer func() { _ = leader.Resign(ctx) }() // where this fails the lease ends by itself
	record, done, err := s.storedSchema(ctx)  // again: another server may have done it meanwhile
	if err != nil || done {
		return err
	}
	from := min(cmp.Or(record.From, record.Schema), cmp.Or(readerOf(s.migrations), record.Schema))
	for schema := from; schema < s.currentSchema(); schema++ {
		step := s.migrations[schema-1]
		s.log.Info("migrating the data", "from", schema, "to", schema+1, "change", step.What)
		if err := s.writeSchema(ctx, leader, schemaRecord{Schema: s.currentSchema(), From: schema}); err != nil {
			return err
		}
		err := s.perform(ctx, leader, step)
		for again := 0; step.Additive && errors.Is(err, errChanged) && again < additiveTries; again++ {
			err = s.perform(ctx, leader, step)
		}
		if err != nil {
			return fmt.Errorf("migrate the data%s from schema %d to %d (%s): %w", s.options.where(), schema, schema+1, step.What, err)
		}
	}
	// What a migration encrypted is still in the clear in older revisions.
	if err := s.dropHistory(ctx); err != nil {
		return err
	}
	return s.writeSchema(ctx, leader, schemaRecord{Schema: s.currentSchema()})
}

// storedSchema is the schema of the data, and whether it is this server's.
func (s *Store) storedSchema(ctx context.Context) (schemaRecord, bool, error) {
	response, err := s.client.Get(ctx, schemaKey)
	if err != nil {
		return schemaRecord{}, false, fmt.Errorf("read %s from etcd: %w", schemaKey, err)
	}
	if len(response.Kvs) == 0 {
		return schemaRecord{}, false, fmt.Errorf("%s vanished from etcd while the store was opened: start again", schemaKey)
	}
	record, err := s.readSchema(response.Kvs[0].Value)
	newer := record.Schema > s.currentSchema()
	return record, newer || record.Schema == s.currentSchema() && record.From == 0 && readerOf(s.migrations) == 0, err
}

func (s *Store) writeSchema(ctx context.Context, leader *Leadership, record schemaRecord) error {
	record.WrittenBy = drover.Version
	if record.From == 0 || record.From >= readerOf(s.migrations) { // until then there is something under way that is not additive
		record.Reader = readerOf(s.migrations)
	}
	value, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return s.writeBatch(ctx, leader, nil, []clientv3.Op{clientv3.OpPut(schemaKey, string(value))})
}

// perform runs one migration over all documents.
func (s *Store) perform(ctx context.Context, leader *Leadership, step migrationStep) error {
	kvs, _, err := s.readAll(ctx, documentsPrefix)
	if err != nil {
		return err
	}
	revisions := make(map[string]int64, len(kvs))
	documents := make([]migratedDocument, 0, len(kvs))
	for _, kv := range kvs {
		collection, key, ok := splitKey(string(kv.Key))
		if !ok {
			continue
		}
		d := migratedDocument{Collection: collection, Key: key, Value: kv.Value, Sensitive: keyring.IsSealed(kv.Value)}
		if d.Sensitive {
			if d.Value, err = s.keys.Open(string(kv.Key), kv.Value); err != nil {
				return fmt.Errorf("read %s/%s: %w", collection, key, err)
			}
		}
		revisions[string(kv.Key)] = kv.ModRevision
		documents = append(documents, d)
	}
	changes, err := step.Change(documents)
	if err != nil {
		return err
	}
	var conditions []clientv3.Cmp
	var writes []clientv3.Op
	for _, d := range changes {
		key := documentKey(d.Collection, d.Key)
		value := d.Value
		if d.Sensitive && value != nil {
			if value, err = s.keys.Seal(key, value); err != nil {
				return fmt.Errorf("write %s/%s: %w", d.Collection, d.Key, err)
			}
		}
		conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(key), "=", revisions[key]))
		if value == nil {
			writes = append(writes, clientv3.OpDelete(key))
		} else {
			writes = append(writes, clientv3.OpPut(key, string(value)))
		}
	}
	for len(writes) > 0 {
		n := batch(writes)
		if err := s.writeBatch(ctx, leader, conditions[:n], writes[:n]); err != nil {
			return err
		}
		conditions, writes = conditions[n:], writes[n:]
	}
	return nil
}

// writeBatch writes as the leader, if the documents are as they were read.
func (s *Store) writeBatch(ctx context.Context, leader *Leadership, conditions []clientv3.Cmp, writes []clientv3.Op) error {
	conditions = append([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(leader.key), "=", leader.revision)}, conditions...)
	response, err := s.client.Txn(ctx).If(conditions...).Then(writes...).Commit()
	if err != nil {
		return fmt.Errorf("write to etcd: %w", err)
	}
	if !response.Succeeded {
		return errChanged
	}
	return nil
}

// errChanged says that documents are no longer what they were when a migration read them.
var errChanged = errors.New("another server changed the data at the same time: stop the servers of older versions and start again")

// additiveTries is how often an additive step is tried beside older servers that write.
const additiveTries = 10

// rekey encrypts with the first key what is encrypted with another, so that a key can
// be taken out of the file after a start with its successor as the first. It returns
// how many records it wrote.
func (s *Store) rekey(ctx context.Context, kvs []*mvccpb.KeyValue) (int, error) {
	var conditions []clientv3.Cmp
	var writes []clientv3.Op
	for _, kv := range kvs {
		sealed, err := s.resealed(kv)
		if err != nil {
			return 0, err
		}
		if sealed != nil {
			conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision))
			writes = append(writes, clientv3.OpPut(string(kv.Key), string(sealed)))
		}
	}
	count := 0
	for len(writes) > 0 {
		n := batch(writes)
		response, err := s.client.Txn(ctx).If(conditions[:n]...).Then(writes[:n]...).Commit()
		if err != nil {
			return count, fmt.Errorf("encrypt with key %s what is encrypted with another: %w", s.keys.FirstID(), err)
		}
		if response.Succeeded { // if not, another server is writing them; the next start sees to the rest
			count += n
		}
		conditions, writes = conditions[n:], writes[n:]
	}
	if count > 0 {
		s.log.Info("encrypted the secrets in the store with the first key of the key file", "key", s.keys.FirstID(), "records", count)
	}
	return count, nil
}

// resealed is a record encrypted with the first key; nil when there is nothing to do.
func (s *Store) resealed(kv *mvccpb.KeyValue) ([]byte, error) {
	if !keyring.IsSealed(kv.Value) {
		return nil, nil
	}
	name := strings.TrimPrefix(string(kv.Key), documentsPrefix)
	id, err := keyring.KeyOf(kv.Value)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if id == s.keys.FirstID() {
		return nil, nil
	}
	plain, err := s.keys.Open(string(kv.Key), kv.Value)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	sealed, err := s.keys.Seal(string(kv.Key), plain)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return sealed, nil
}

// migrationStep brings the documents from one schema to the next.
type migrationStep struct {
	// What says what it does, for the log and for errors.
	What string
	// Change decides what to write. It must give nothing more to write when it is given its own result, since a crash can end
	// it in the middle and it is then run again.
	Change func(documents []migratedDocument) (changes []migratedDocument, err error)
	// Additive says that servers of the schema before go on with what it leaves, beside newer ones or in their place after a way back. What
	// it adds can be made again from the rest, as they drop what they do not know: it runs at each start until its release is the oldest
	// that counts, and then is no longer additive.
	Additive bool
}

// migratedDocument is a document whose type is not known, decrypted.
type migratedDocument struct {
	Collection string
	Key        string
	// Sensitive documents are encrypted at rest.
	Sensitive bool
	Value     []byte // JSON; nil in a change deletes the document
}

// migrationSteps are the steps between schemas in their order: the first leads from schema 1 to 2. A step that was released is never
// changed but for its Additive, or taken away.
func migrationSteps() []migrationStep {
	return []migrationStep{
		// Environments of agents, addresses of datastores and manifests of clusters hold
		// passwords, and so does what instructions of a machine have printed.
		encrypting("clusters", "machines"),
		// A server that makes the IDs from the cluster's, and believes what namespaces say of themselves, would give and take rights.
		{What: "write down the projects Default and System of clusters", Change: builtinProjects},
		// A server that goes by names alone would have a cluster use what another person made under a name.
		{What: "mark the Secrets and ConfigMaps that clusters use", Change: references},
	}
}

// encrypting seals what was in the clear in these collections.
func encrypting(collections ...string) migrationStep {
	return migrationStep{
		What: "encrypt " + strings.Join(collections, " and ") + " at rest",
		Change: func(documents []migratedDocument) (changes []migratedDocument, err error) {
			for _, d := range documents {
				if slices.Contains(collections, d.Collection) && !d.Sensitive {
					d.Sensitive = true
					changes = append(changes, d)
				}
			}
			return changes, nil
		},
	}
}
