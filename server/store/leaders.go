package store

// This file knows who leads, by the candidacies of all stores, as the view sees them come and go.

import (
	"context"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// candidate is a candidacy: the one that was made first leads.
type candidate struct {
	identity string
	made     int64
}

// Leader is the identity of who leads name, as far as the view has come; empty when nobody does, or when that is not known yet.
func (s *Store) Leader(name string) string {
	s.leaders.mu.Lock()
	defer s.leaders.mu.Unlock()
	first := candidate{}
	for key, one := range s.leaders.candidates {
		if strings.HasPrefix(key, leadersPrefix+name+"/") && (first.made == 0 || one.made < first.made) {
			first = one
		}
	}
	return first.identity
}

// OnLeader has f called after a candidacy came or went. f must not block, and is never taken back.
func (s *Store) OnLeader(f func()) {
	s.leaders.mu.Lock()
	defer s.leaders.mu.Unlock()
	s.leaders.observers = append(s.leaders.observers, f)
}

// readLeaders looks at all candidacies anew.
func (s *Store) readLeaders(ctx context.Context) error {
	kvs, _, err := s.readAll(ctx, leadersPrefix)
	if err != nil {
		return err
	}
	all := map[string]candidate{}
	for _, kv := range kvs {
		all[string(kv.Key)] = candidateOf(kv)
	}
	s.leaders.change(func(known map[string]candidate) {
		clear(known)
		maps.Copy(known, all)
	})
	return nil
}

func candidateOf(kv *mvccpb.KeyValue) candidate {
	return candidate{identity: string(kv.Value), made: kv.CreateRevision}
}

// change changes the candidacies and calls who observes them.
func (ls *leaderships) change(do func(map[string]candidate)) {
	ls.mu.Lock()
	do(ls.candidates)
	observers := slices.Clone(ls.observers)
	ls.mu.Unlock()
	for _, f := range observers {
		f()
	}
}
