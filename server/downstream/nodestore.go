package downstream

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	// maxKeptOfNodes bounds the nodes that are kept of a cluster, in bytes: five thousand, which is what Kubernetes is made for, have about
	// 12 MiB. perNode is what each takes beside its texts.
	maxKeptOfNodes = 16 << 20
	perNode        = 1 << 10
)

// sizeOfNode is what a node takes that is kept, in bytes.
func sizeOfNode(node *corev1.Node) int64 { return int64(node.Size()) + perNode }

// nodeStore is where a reflector puts nodes. It keeps what Slim leaves of them, and only so many. A reflector calls it from one goroutine.
type nodeStore struct {
	cache.Store
	// Changed is called after each change.
	Changed func()
	// Exceeded is called when there are more nodes than are kept; the last one is not.
	Exceeded func()

	sizes map[string]int64
	total int64
}

// Add implements cache.Store.
func (s *nodeStore) Add(o any) error { return s.put(o, s.Store.Add) }

// Update implements cache.Store.
func (s *nodeStore) Update(o any) error { return s.put(o, s.Store.Update) }

// Delete implements cache.Store.
func (s *nodeStore) Delete(o any) error {
	if node, ok := o.(*corev1.Node); ok {
		s.count(node.Name, 0)
	}
	return s.report(s.Store.Delete(o))
}

// Replace implements cache.Store.
func (s *nodeStore) Replace(all []any, version string) error {
	s.sizes, s.total = map[string]int64{}, 0
	kept := make([]any, 0, len(all))
	for _, o := range all {
		slim, ok := s.slim(o)
		if !ok {
			return nil // its owner was told
		}
		kept = append(kept, slim)
	}
	return s.report(s.Store.Replace(kept, version))
}

func (s *nodeStore) put(o any, do func(any) error) error {
	slim, ok := s.slim(o)
	if !ok {
		return nil
	}
	return s.report(do(slim))
}

// slim is what is kept of a node, if there is room for it.
func (s *nodeStore) slim(o any) (kept any, ok bool) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return o, true // the reflector lets only nodes pass
	}
	node = slimNode(node)
	if s.count(node.Name, sizeOfNode(node)); s.total > maxKeptOfNodes {
		s.Exceeded()
		return nil, false
	}
	return node, true
}

// count remembers how large a node is.
func (s *nodeStore) count(name string, size int64) {
	if s.sizes == nil {
		s.sizes = map[string]int64{}
	}
	s.total += size - s.sizes[name]
	if s.sizes[name] = size; size == 0 {
		delete(s.sizes, name)
	}
}

func (s *nodeStore) report(err error) error {
	if err == nil {
		s.Changed()
	}
	return err
}
