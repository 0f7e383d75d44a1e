package store

// This file holds the number of the data's schema: what older servers would
// misunderstand they refuse.

import (
	"context"
	"encoding/json"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/drover-project/drover"
)

// schemaRecord is the value of schemaKey.
type schemaRecord struct {
	Schema int `json:"schema"`
	// WrittenBy is the version of drover that brought the data to this schema.
	WrittenBy string `json:"writtenBy"`
}

// currentSchema is what this server reads and writes: one for the beginning, and one
// for each migration.
func currentSchema() int { return 1 + len(migrations()) }

func (s *Store) checkSchema(ctx context.Context) error {
	response, err := s.client.Get(ctx, schemaKey)
	if err != nil {
		return fmt.Errorf("read %s from etcd: %w", schemaKey, err)
	}
	if len(response.Kvs) == 0 {
		return s.beginSchema(ctx)
	}
	return checkSchemaValue(response.Kvs[0].Value)
}

// checkSchemaValue refuses data of a newer server.
func checkSchemaValue(value []byte) error {
	var r schemaRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return fmt.Errorf("read %s: %w", schemaKey, err)
	}
	if r.Schema > currentSchema() {
		return fmt.Errorf("the data was written by a newer drover (%s, schema %d) and this is %s, which knows schemas up to %d: start the newer drover, or restore a backup made by this one",
			r.WrittenBy, r.Schema, drover.Version, currentSchema())
	}
	return nil
}

func (s *Store) beginSchema(ctx context.Context) error {
	documents, err := s.client.Get(ctx, documentsPrefix, clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithKeysOnly())
	if err != nil {
		return fmt.Errorf("read %s from etcd: %w", documentsPrefix, err)
	}
	if len(documents.Kvs) > 0 {
		return fmt.Errorf("etcd has documents below %s but no %s: the data is damaged or not drover's", documentsPrefix, schemaKey)
	}
	value, err := json.Marshal(schemaRecord{Schema: currentSchema(), WrittenBy: drover.Version})
	if err != nil {
		return err
	}
	_, err = s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(schemaKey), "=", 0)).
		Then(clientv3.OpPut(schemaKey, string(value))).Commit()
	if err != nil {
		return fmt.Errorf("write %s to etcd: %w", schemaKey, err)
	}
	return nil
}

// migrations are the steps from each schema to the next, oldest first.
func migrations() []struct{} { return nil }
