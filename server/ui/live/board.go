// What open pages show is drawn once for all that show the same, and never takes more than a part of the time.

package live

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// leastGap is from the begin of one drawing of a picture to that of the next: five a second at most.
	leastGap = 200 * time.Millisecond
	// part is how much of the processors' time all drawing takes in the long run, one in so many, and idlePart how much while the
	// server has nothing else to do. burst may be taken at once, so that no page waits while little changes.
	part     = 36
	idlePart = 3
	burst    = 500 * time.Millisecond
	// look is how often it is looked at how busy the server is.
	look = 100 * time.Millisecond
	// delivery is what it takes to give a drawing to one page, about.
	delivery = 50 * time.Microsecond
	// mostAsks is how many pictures ask others at once.
	mostAsks = 16
)

// Drawing is what pages show.
type Drawing struct {
	// ID names what is shown; empty where there is nothing to show yet.
	ID string
	// Event is how it is sent.
	Event
	// Topics are those whose changes it shows; nil are those of the drawing before.
	Topics []string
	// Ask waits for what others have to say, after which the picture is drawn again; nil where no request is needed. It is called
	// after a Rest.
	Ask  func()
	Rest time.Duration
	// Err is why it cannot be drawn.
	Err error
}

// Draw draws what there is now, and never waits. changed says that something of what is shown may have changed; otherwise
// it is only that Ask has returned. It is never called twice at once.
type Draw func(changed bool) Drawing

// Board has the pictures of all open pages. Those are drawn first for which most pages have waited longest, all together.
type Board struct {
	hub   *Hub
	fault func(error)
	cores float64
	slots int // how many are drawn at once
	asks  chan struct{}
	// used are the processors' time that the server has taken, and that of the thread that asks.
	used func() (server, thread time.Duration)

	// mu is taken under hub.mu by what the hub tells, so the hub is never called under it.
	mu       sync.Mutex
	pictures map[string]*picture
	drawing  int
	// left is the processors' time that drawing may take now, as of counted, and rate what is added to it.
	left    time.Duration
	counted time.Time
	rate    float64
	// drawn is the time that drawings have taken since seen, when the server had taken busy.
	drawn, busy time.Duration
	seen        time.Time
	wake        *time.Timer
}

// NewBoard makes a board for so many processors. fault hears of drawings that failed.
func NewBoard(hub *Hub, processors int, fault func(error)) *Board {
	now := time.Now()
	return &Board{
		hub: hub, fault: fault, cores: float64(processors), slots: max(1, processors/2), rate: float64(processors) / part, asks: make(chan struct{}, mostAsks),
		used: used, pictures: map[string]*picture{}, left: burst, counted: now, seen: now,
	}
}

// picture is what all pages with one key show. All is guarded by board.mu.
type picture struct {
	key     string
	watch   *Watch
	viewers map[*Viewer]struct{}
	artist  *Viewer // whose Draw it is drawn by
	// due says that it is to be drawn, and changed that this is because of a change.
	due, changed    bool
	drawing, asking bool
	began           time.Time // when it was drawn last
	// now is the newest drawing and at its number; begun is the number of the one that was begun last.
	now       Drawing
	at, begun uint64
}

// Viewer is one open page.
type Viewer struct {
	board *Board
	watch *Watch
	due   chan struct{}
	// The rest is guarded by board.mu.
	picture *picture
	draw    Draw
	from    uint64 // drawings before this one may be older than the page
	taken   string
}

// Open adds a page that shows nothing yet. It is due at each change of these topics, too. Close ends it.
func (b *Board) Open(topics ...string) *Viewer {
	v := &Viewer{board: b, due: make(chan struct{}, 1)}
	v.watch = b.hub.Open(v.tell)
	v.watch.Of(topics, 0)
	return v
}

// Show has the page show what all pages of a key show, drawn by the Draw of any of them. A page that has the key may see
// what each of them draws.
func (v *Viewer) Show(key string, draw Draw) {
	b := v.board
	b.mu.Lock()
	var left *picture
	if v.picture == nil || v.picture.key != key {
		left = b.leave(v)
		b.join(v, key, draw)
		b.serve()
	}
	b.mu.Unlock()
	left.close()
}

// Due has a value when there may be something new since it was taken from last.
func (v *Viewer) Due() <-chan struct{} { return v.due }

// Now is the newest drawing; ok is false where there is none that is at least as new as the page.
func (v *Viewer) Now() (d Drawing, ok bool) {
	v.board.mu.Lock()
	defer v.board.mu.Unlock()
	p := v.picture
	if p == nil || p.at == 0 || p.at < v.from {
		return Drawing{}, false
	}
	v.taken = p.now.ID
	return p.now, true
}

// Close forgets the page.
func (v *Viewer) Close() {
	v.watch.Close()
	v.board.mu.Lock()
	left := v.board.leave(v)
	v.board.mu.Unlock()
	left.close()
}

func (v *Viewer) tell() {
	select {
	case v.due <- struct{}{}:
	default:
	}
}

// join adds a page to the picture of a key, under mu.
func (b *Board) join(v *Viewer, key string, draw Draw) {
	p := b.pictures[key]
	if p == nil {
		// Its page has just been loaded, and so is not older than those of others.
		p = &picture{key: key, viewers: map[*Viewer]struct{}{}, artist: v, due: true, changed: true, began: time.Now().Add(-leastGap)}
		p.watch = b.hub.Open(func() { b.changed(p) })
		b.pictures[key] = p
	}
	p.viewers[v] = struct{}{}
	v.picture, v.draw, v.taken, v.from = p, draw, "", p.begun
	if p.due {
		v.from++
	}
}

// leave takes a page from its picture, under mu. It returns the picture when that was the last page and it is not being drawn; it
// is to be closed then.
func (b *Board) leave(v *Viewer) *picture {
	p := v.picture
	if p == nil {
		return nil
	}
	v.picture = nil
	delete(p.viewers, v)
	if p.artist == v {
		p.artist = nil
		for other := range p.viewers {
			p.artist = other
			break
		}
	}
	if len(p.viewers) > 0 {
		return nil
	}
	delete(b.pictures, p.key)
	if p.drawing {
		return nil // who draws it closes it
	}
	return p
}

func (p *picture) close() {
	if p != nil {
		p.watch.Close()
	}
}

// changed is called by the hub.
func (b *Board) changed(p *picture) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.due, p.changed = true, true
	b.serve()
}

// serve begins what may be drawn now, and sees that it is called again when something else may be; under mu.
func (b *Board) serve() {
	for b.drawing < b.slots {
		p := b.next()
		if p == nil {
			return
		}
		if wait := max(time.Until(p.began.Add(leastGap)), b.until()); wait > 0 {
			b.later(wait)
			return
		}
		draw, changed := p.artist.draw, p.changed
		p.due, p.changed, p.drawing, p.began = false, false, true, time.Now()
		p.begun++
		b.drawing++
		go b.draw(p, p.begun, draw, changed)
	}
}

// next is the picture to be drawn next of those that are due, which may be drawn only later; nil for none. The time since a
// picture was drawn counts for each of its pages: a list that hundreds of people look at does not wait for hundreds of pages
// that one person each has open, and as their time grows they have their turn, too.
func (b *Board) next() *picture {
	var found *picture
	var waited time.Duration
	now := time.Now()
	for _, p := range b.pictures {
		if !p.due || p.drawing {
			continue
		}
		age := now.Sub(p.began)
		if age >= leastGap { // before those that may not be drawn yet
			age = leastGap + age*time.Duration(1+len(p.viewers))
		}
		if found == nil || age > waited {
			found, waited = p, age
		}
	}
	return found
}

// until is how long it takes until there is time for drawing again.
func (b *Board) until() time.Duration {
	now := time.Now()
	b.left = min(burst, b.left+time.Duration(float64(now.Sub(b.counted))*b.rate))
	b.counted = now
	if past := now.Sub(b.seen); past >= look {
		server, _ := b.used()
		others := max(0, float64(server-b.busy-b.drawn)/float64(past)/b.cores)
		b.rate = b.cores * max(1.0/part, 1.0/idlePart-others)
		b.busy, b.drawn, b.seen = server, 0, now
	}
	if b.left > 0 {
		return 0
	}
	return time.Duration(float64(-b.left)/b.rate) + time.Millisecond
}

func (b *Board) later(wait time.Duration) {
	if b.wake != nil {
		b.wake.Stop()
	}
	b.wake = time.AfterFunc(wait, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.serve()
	})
}

// draw makes the drawing of a number and gives it to the pages.
func (b *Board) draw(p *picture, number uint64, draw Draw, changed bool) {
	runtime.LockOSThread() // whose time is counted, which a drawing does not wait in
	_, before := b.used()
	revision := b.hub.Revision()
	d := b.guarded(draw, changed)
	_, after := b.used()
	runtime.UnlockOSThread()
	missed := d.Topics != nil && p.watch.Of(d.Topics, revision)
	b.mu.Lock()
	b.drawing--
	p.drawing = false
	if missed { // it changed, perhaps, before the picture was told of changes
		p.due, p.changed = true, true
	}
	b.until()
	b.left -= after - before + time.Duration(len(p.viewers))*delivery
	b.drawn += after - before
	if d.ID != "" || d.Err != nil {
		p.now, p.at = d, number
		for v := range p.viewers {
			if v.taken != d.ID {
				v.tell()
			}
		}
	}
	if d.Ask != nil && !p.asking {
		p.asking = true
		time.AfterFunc(d.Rest, func() { b.ask(p, d.Ask) })
	}
	last := len(p.viewers) == 0
	b.serve()
	b.mu.Unlock()
	if last {
		p.close()
	}
}

// ask waits for what others say, in a turn that no drawing waits for.
func (b *Board) ask(p *picture, ask func()) {
	b.asks <- struct{}{}
	b.guarded(func(bool) Drawing { ask(); return Drawing{} }, false)
	<-b.asks
	b.mu.Lock()
	defer b.mu.Unlock()
	p.asking, p.due = false, true
	b.serve()
}

// guarded draws. What panics here would end the server, as it is in no request.
func (b *Board) guarded(draw Draw, changed bool) (d Drawing) {
	defer func() {
		if fault := recover(); fault != nil {
			d = Drawing{Err: fmt.Errorf("panic: %v\n%s", fault, debug.Stack())}
		}
		if d.Err != nil && b.fault != nil {
			b.fault(d.Err)
		}
	}()
	return draw(changed)
}
