package live

import "testing"

func due(p *Page) bool {
	select {
	case <-p.Due():
		return true
	default:
		return false
	}
}

func TestPagesAreToldOfTheirTopics(t *testing.T) {
	var h Hub
	a, b := h.Open(), h.Open()
	a.Watch([]string{"clusters", "cluster/x"})
	b.Watch([]string{"cluster/y"})
	h.Changed("cluster/x", "clusters")
	if !due(a) || due(a) || due(b) {
		t.Error("a page is told once of several changes, and only of its own")
	}
	a.Watch([]string{"cluster/y"})
	h.Changed("cluster/x")
	if due(a) {
		t.Error("a page is told of what it showed before")
	}
	h.Changed("cluster/y")
	if !due(a) || !due(b) {
		t.Error("two pages of a topic are not both told")
	}
	if a.Tell(); !due(a) {
		t.Error("Tell tells nothing")
	}
	a.Close()
	b.Close()
	if h.Changed("cluster/y"); due(a) || h.Topics() != 0 {
		t.Error("a page that is closed is kept")
	}
}
