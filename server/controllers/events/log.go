// The events as they are read.

package events

import (
	"slices"
	"strings"

	"github.com/drover-project/drover/server/records"
)

// add takes an event, if it is one.
func (l *Log) add(e records.Event, changed bool) {
	if !changed {
		return
	}
	l.mu.Lock()
	list := append(l.pending[e.ClusterID], e)
	l.pending[e.ClusterID] = list[max(0, len(list)-PerCluster):]
	close(l.more)
	l.more = make(chan struct{})
	l.mu.Unlock()
	l.mark()
}

func (l *Log) mark() { l.dirty.Add("") }

// written takes events for written down, up to a revision.
func (l *Log) written(cluster string, revision int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(l.pending[cluster]), func(e records.Event) bool { return e.Revision <= revision })
	if len(left) == 0 {
		delete(l.pending, cluster)
		return
	}
	l.pending[cluster] = left
}

// More is closed when there is another event.
func (l *Log) More() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.more
}

// From are the events of a cluster, or of all for "", whose revision is at least the given one, in
// their order. Every server has the same, but for those of the last second before it started. Two
// that share the newest revision may come one after the other.
func (l *Log) From(cluster string, revision int64) []records.Event {
	prefix, fresh := "", l.seen(cluster) // before the pages: what is written meanwhile is then found twice, and not missed
	if cluster != "" {
		prefix = cluster + "/"
	}
	var all []records.Event
	reached := map[string]int64{}
	for _, d := range l.State.Events.ListIn(prefix) {
		last := through(d.Value)
		reached[clusterOf(d.Key)] = last
		if last >= revision {
			all = append(all, d.Value.Events...)
		}
	}
	for _, e := range fresh {
		if e.Revision > reached[e.ClusterID] {
			all = append(all, e)
		}
	}
	all = slices.DeleteFunc(all, func(e records.Event) bool { return e.Revision < revision })
	slices.SortFunc(all, records.CompareEvents)
	return all
}

// seen are the events of a cluster, or of all, that are not written down.
func (l *Log) seen(cluster string) []records.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cluster != "" {
		return slices.Clone(l.pending[cluster])
	}
	var all []records.Event
	for _, list := range l.pending {
		all = append(all, list...)
	}
	return all
}

func clusterOf(pageKey string) string {
	id, _, _ := strings.Cut(pageKey, "/")
	return id
}

// through is the revision up to which a page has events; pages are not empty.
func through(p records.EventPage) int64 {
	if len(p.Events) == 0 {
		return 0
	}
	return p.Events[len(p.Events)-1].Revision
}
