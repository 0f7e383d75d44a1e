package store

// This file holds the number of the data's schema: what older servers would
// misunderstand they refuse.

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/drover-project/drover"
)

// schemaRecord is the value of schemaKey.
type schemaRecord struct {
	Schema int `json:"schema"`
	// From is the schema that a migration to Schema began with, which has not ended; 0
	// while none is under way. Servers that know only From refuse the data from the
	// beginning of the migration.
	From int `json:"from,omitempty"`
	// Reader is the oldest schema whose servers may use the data, too; 0 says that none older than Schema may.
	Reader int `json:"reader,omitempty"`
	// WrittenBy is the version of drover that brought the data to this schema.
	WrittenBy string `json:"writtenBy"`
}

// currentSchema is what this server reads and writes: 1 for the beginning, and one more
// for each migration.
func (s *Store) currentSchema() int { return 1 + len(s.migrations) }

// readerOf is the oldest schema whose servers may use what these steps leave; 0 says that none older may.
func readerOf(steps []migrationStep) int {
	oldest := 1 + len(steps)
	for oldest > 1 && steps[oldest-2].Additive {
		oldest--
	}
	if oldest == 1+len(steps) {
		return 0
	}
	return oldest
}

// checkSchema refuses data that this server does not understand, and marks a new store.
func (s *Store) checkSchema(ctx context.Context) error {
	response, err := s.client.Get(ctx, schemaKey)
	if err != nil {
		return fmt.Errorf("read %s from etcd: %w", schemaKey, err)
	}
	if len(response.Kvs) == 0 {
		return s.beginSchema(ctx)
	}
	_, err = s.readSchema(response.Kvs[0].Value)
	return err
}

// readSchema refuses data of a newer server.
func (s *Store) readSchema(value []byte) (schemaRecord, error) {
	var r schemaRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return r, fmt.Errorf("read %s: %w", schemaKey, err)
	}
	if oldest := cmp.Or(r.Reader, r.Schema); oldest > s.currentSchema() {
		return r, fmt.Errorf("the data%s is of a newer drover (%s, schema %d) and this is %s, which knows schemas up to %d: start the newer drover, or restore a backup made by this one",
			s.options.where(), r.WrittenBy, r.Schema, drover.Version, s.currentSchema())
	}
	if r.Schema < 1 || r.From < 0 || r.From >= r.Schema || r.Reader < 0 || r.Reader > r.Schema {
		return r, fmt.Errorf("read %s: schema %d coming from %d cannot be: the data%s is damaged", schemaKey, r.Schema, r.From, s.options.where())
	}
	return r, nil
}

// where is " in <path>" of the embedded etcd, or " in etcd at <addresses>".
func (o Options) where() string {
	if len(o.Endpoints) > 0 {
		return " in etcd at " + strings.Join(o.Endpoints, ", ")
	}
	return " in " + o.DataDir
}

func (s *Store) beginSchema(ctx context.Context) error {
	documents, err := s.client.Get(ctx, documentsPrefix, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil {
		return fmt.Errorf("read %s from etcd: %w", documentsPrefix, err)
	}
	if len(documents.Kvs) > 0 {
		return fmt.Errorf("the data%s has documents but no %s: it is damaged or not drover's", s.options.where(), schemaKey)
	}
	value, err := json.Marshal(schemaRecord{Schema: s.currentSchema(), Reader: readerOf(s.migrations), WrittenBy: drover.Version})
	if err != nil {
		return err
	}
	response, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(schemaKey), "=", 0)).
		Then(clientv3.OpPut(schemaKey, string(value))).Else(clientv3.OpGet(schemaKey)).Commit()
	if err != nil {
		return fmt.Errorf("write %s to etcd: %w", schemaKey, err)
	}
	if response.Succeeded {
		return nil
	}
	// Another server of the same etcd was quicker.
	for _, kv := range response.Responses[0].GetResponseRange().Kvs {
		_, err = s.readSchema(kv.Value)
	}
	return err
}
