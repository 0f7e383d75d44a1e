// The clusters by their management ids: in the store they are keyed by namespace and
// name, and every request that names a cluster names its id.

package api

import (
	"sync"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

type clusterIndex struct {
	clusters *store.Collection[records.Cluster]

	mu   sync.RWMutex
	keys map[string]string
}

// newClusterIndex follows the collection until stop.
func newClusterIndex(clusters *store.Collection[records.Cluster]) (x *clusterIndex, stop func()) {
	x = &clusterIndex{clusters: clusters, keys: map[string]string{}}
	stop = clusters.Observe(func(e store.Event[records.Cluster]) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if e.Type == store.Deleted {
			delete(x.keys, e.Value.ID)
			return
		}
		x.keys[e.Value.ID] = e.Key
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, d := range clusters.List() {
		x.keys[d.Value.ID] = d.Key
	}
	return x, stop
}

func (x *clusterIndex) get(id string) (store.Document[records.Cluster], bool) {
	x.mu.RLock()
	key, ok := x.keys[id]
	x.mu.RUnlock()
	if !ok {
		return store.Document[records.Cluster]{}, false
	}
	d, ok := x.clusters.Get(key)
	return d, ok && d.Value.ID == id
}
