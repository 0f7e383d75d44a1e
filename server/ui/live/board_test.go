package live

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// easel counts drawings: each takes a while and shows what there is when it begins.
type easel struct {
	mu    sync.Mutex
	state string
	takes time.Duration
	order []string // the keys, as they were drawn
	spent time.Duration
	hub   Hub
}

// board is one of a server with two processors, of which other work takes a part.
func (e *easel) board(others float64) *Board {
	b, began := NewBoard(&e.hub, 2, nil), time.Now()
	b.used = func() (server, thread time.Duration) {
		e.mu.Lock()
		defer e.mu.Unlock()
		now := time.Since(began)
		return time.Duration(2*others*float64(now)) + e.spent, now
	}
	return b
}

func (e *easel) set(state string) {
	e.mu.Lock()
	e.state = state
	e.mu.Unlock()
	e.hub.Changed("state")
}

func (e *easel) draws(key string) Draw {
	return func(bool) Drawing {
		e.mu.Lock()
		e.order = append(e.order, key)
		d := Drawing{ID: key + " " + e.state, Topics: []string{"state"}}
		e.mu.Unlock()
		time.Sleep(e.takes)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.spent += e.takes
		return d
	}
}

// drawn is how often something was drawn since it was asked last.
func (e *easel) drawn() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	order := e.order
	e.order = nil
	return order
}

// shows is what a page has got once all is at rest.
func shows(t *testing.T, v *Viewer) string {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	d, ok := v.Now()
	if !ok {
		return ""
	}
	return d.ID
}

func TestPicturesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // until all has ended
		e := &easel{state: "1", takes: 10 * time.Millisecond}
		b := e.board(1)
		a, second, other := b.Open(), b.Open(), b.Open()
		a.Show("admin", e.draws("admin"))
		if got := shows(t, a); got != "admin 1" {
			t.Errorf("the first page shows %q", got)
		}
		e.drawn()
		second.Show("admin", func(bool) Drawing { t.Error("the second page was drawn"); return Drawing{} })
		if got := shows(t, second); got != "admin 1" || len(e.drawn()) != 0 {
			t.Errorf("the second page of the same shows %q", got)
		}
		other.Show("bob", e.draws("bob"))
		if got := shows(t, other); got != "bob 1" {
			t.Errorf("the page of another key shows %q", got)
		}
		e.drawn()
		e.set("2")
		for v, want := range map[*Viewer]string{a: "admin 2", second: "admin 2", other: "bob 2"} {
			if got := shows(t, v); got != want {
				t.Errorf("after a change a page shows %q, want %q", got, want)
			}
		}
		if n := len(e.drawn()); n != 2 {
			t.Errorf("two pictures were drawn %d times", n)
		}
		// The page by whose means the picture was drawn goes away.
		a.Close()
		second.draw = e.draws("second")
		e.set("3")
		if got := shows(t, second); got != "second 3" {
			t.Errorf("once the first page has gone the second one shows %q", got)
		}
		// A viewer that has another key now gets nothing of the one before.
		second.Show("bob", e.draws("bob"))
		if d, ok := second.Now(); ok && !strings.HasPrefix(d.ID, "bob") {
			t.Errorf("with another key a page shows %q", d.ID)
		}
		second.Close()
		other.Close()
		if len(b.pictures) != 0 || e.hub.Topics() != 0 {
			t.Errorf("%d pictures and %d topics are kept of pages that are closed", len(b.pictures), e.hub.Topics())
		}
		e.drawn()
		if e.set("4"); shows(t, second) != "" || len(e.drawn()) != 0 {
			t.Error("a page that is closed gets something")
		}
	})
}

// TestNewestWins: what changes while a picture is drawn is drawn after it, once, and no page gets what is older than itself.
func TestNewestWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // until all has ended
		e := &easel{state: "1", takes: 10 * time.Millisecond}
		b := e.board(1)
		v := b.Open()
		defer v.Close()
		v.Show("k", e.draws("k"))
		shows(t, v)
		e.drawn()
		e.set("2")
		time.Sleep(5 * time.Millisecond) // it is being drawn
		for i := range 50 {
			e.set(fmt.Sprint(3 + i))
		}
		late := b.Open()
		defer late.Close()
		late.Show("k", e.draws("k"))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if d, ok := late.Now(); ok {
			t.Errorf("a page that was loaded after a change gets %q of before it", d.ID)
		}
		if d, _ := v.Now(); d.ID != "k 2" {
			t.Errorf("the page shows %q", d.ID)
		}
		for _, one := range []*Viewer{v, late} {
			if got := shows(t, one); got != "k 52" {
				t.Errorf("after all changes a page shows %q", got)
			}
		}
		if n := len(e.drawn()); n != 2 {
			t.Errorf("%d drawings of 51 changes", n)
		}
	})
}

// TestGap: a picture that changes all the time is drawn five times a second.
func TestGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // until all has ended
		e := &easel{takes: time.Millisecond}
		b := e.board(1)
		v := b.Open()
		defer v.Close()
		v.Show("k", e.draws("k"))
		shows(t, v)
		e.drawn()
		for i := range 1000 {
			e.set(fmt.Sprint(i))
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(e.drawn()); n < 45 || n > 51 {
			t.Errorf("%d drawings in ten seconds", n)
		}
	})
}

// TestFairness: under more changes than can be drawn each picture has its turn, the one that waited longest first.
func TestFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // until all has ended
		const pictures = 50
		e := &easel{takes: 10 * time.Millisecond}
		b := e.board(1)
		for i := range pictures {
			v := b.Open()
			defer v.Close()
			v.Show(fmt.Sprint(i), e.draws(fmt.Sprint(i)))
		}
		began := time.Now()
		for n := 0; time.Since(began) < time.Minute; n++ {
			e.set(fmt.Sprint(n))
			time.Sleep(50 * time.Millisecond)
		}
		order := e.drawn()
		for round := pictures; round+pictures <= len(order); round += pictures {
			seen := slices.Clone(order[round : round+pictures])
			slices.Sort(seen)
			if n := len(slices.Compact(seen)); n != pictures {
				t.Fatalf("in a round of %d drawings %d pictures had their turn", pictures, n)
			}
		}
		if len(order) < 5*pictures {
			t.Errorf("%d drawings in a minute", len(order))
		}
	})
}

// TestManyPagesGoFirst: what hundreds look at is drawn again and again while hundreds of other pages wait, and each of those
// has its turn, too.
func TestManyPagesGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(5 * time.Minute) // until all has ended
		const single, viewers, lasts = 100, 250, time.Minute
		e := &easel{takes: 10 * time.Millisecond}
		b := e.board(1)
		show := func(key string) {
			v := b.Open()
			t.Cleanup(v.Close)
			v.Show(key, e.draws(key))
		}
		for i := range single {
			show(fmt.Sprint(i))
		}
		for range viewers {
			show("list")
		}
		time.Sleep(5 * time.Minute)
		e.drawn()
		began := time.Now()
		for n := 0; time.Since(began) < lasts; n++ {
			e.set(fmt.Sprint(n))
			time.Sleep(50 * time.Millisecond)
		}
		turns := map[string]int{}
		for _, key := range e.drawn() {
			turns[key]++
		}
		if len(turns) != single+1 {
			t.Errorf("%d pictures of %d had their turn", len(turns), single+1)
		}
		// A drawing of the list is charged with 22.5 ms, an eighteenth of a processor pays for 148 of them.
		if n := turns["list"]; n < 100 {
			t.Errorf("what %d pages show was drawn %d times in %s", viewers, n, lasts)
		}
	})
}

// TestPartOfTheTime: a few pages are drawn as fast as they can, and hundreds of different ones take a small part of the time
// while the server has other work, and a larger one while it has none.
func TestPartOfTheTime(t *testing.T) {
	for _, c := range []struct {
		pictures, viewers int
		others            float64
		least, most       time.Duration
	}{
		{1, 1, 1, 0, 0}, {20, 1, 1, 0, 0}, {2, 250, 1, 0, 0},
		// 5 s of drawing, of which half a second at once and the rest at an eighteenth of a processor, or at up to two thirds of one.
		{500, 1, 1, 75 * time.Second, 90 * time.Second}, {500, 1, 0.32, 75 * time.Second, 90 * time.Second},
		{500, 1, 0.2, 15 * time.Second, 20 * time.Second}, {500, 1, 0, 6 * time.Second, 9 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			defer time.Sleep(time.Minute) // until all has ended
			e := &easel{takes: 10 * time.Millisecond}
			b := e.board(c.others)
			var all []*Viewer
			for i := range c.pictures {
				for range c.viewers {
					v := b.Open()
					defer v.Close()
					v.Show(fmt.Sprint(i), e.draws(fmt.Sprint(i)))
					all = append(all, v)
				}
			}
			time.Sleep(5 * time.Minute) // until nothing is due and all the time that can be saved is there
			e.drawn()
			e.set("now")
			began := time.Now()
			for _, v := range all {
				for {
					if d, ok := v.Now(); ok && strings.HasSuffix(d.ID, " now") {
						break
					}
					<-v.Due()
				}
			}
			took := time.Since(began)
			drawing := time.Duration(c.pictures) * e.takes
			if least, most := max(c.least, drawing), max(c.most, drawing+time.Millisecond); took < least || took > most {
				t.Errorf("%d pictures with %d pages each beside other work of %g took %s, want %s to %s", c.pictures, c.viewers, c.others, took, least, most)
			}
		})
	}
}

// TestAsk: while another answer is waited for, changes are drawn as ever, on this picture and all others.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // until all has ended
		e := &easel{state: "1", takes: time.Millisecond}
		b := e.board(1)
		v, other := b.Open(), b.Open()
		defer v.Close()
		defer other.Close()
		var mu sync.Mutex
		answer, asked := "", 0
		plain := e.draws("k")
		v.Show("k", func(changed bool) Drawing {
			d := plain(changed)
			mu.Lock()
			defer mu.Unlock()
			d.ID += answer
			if changed {
				d.Ask = func() {
					time.Sleep(30 * time.Second)
					mu.Lock()
					defer mu.Unlock()
					asked++
					answer = fmt.Sprint(", answer ", asked)
				}
			}
			return d
		})
		other.Show("other", e.draws("other"))
		for _, want := range []string{"k 1", "k 2", "k 3"} {
			if got := shows(t, v); got != want {
				t.Errorf("while a host is asked the page shows %q, want %q", got, want)
			}
			if got := shows(t, other); !strings.HasPrefix(got, "other") {
				t.Errorf("another page shows %q", got)
			}
			if want != "k 3" {
				e.set(string(want[2] + 1))
			}
		}
		time.Sleep(time.Minute)
		if got := shows(t, v); !strings.HasPrefix(got, "k 3, answer") || asked > 3 {
			t.Errorf("once the host has answered the page shows %q, asked %d times", got, asked)
		}
	})
}

// TestFaults: a drawing that fails ends nothing but itself.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // until all has ended
		var hub Hub
		var faults []string
		b := NewBoard(&hub, 2, func(err error) { faults = append(faults, err.Error()) })
		v, w := b.Open(), b.Open()
		defer v.Close()
		defer w.Close()
		v.Show("panics", func(bool) Drawing { panic("no such field") })
		w.Show("fails", func(bool) Drawing { return Drawing{Err: errors.New("no template")} })
		shows(t, v)
		for _, one := range []*Viewer{v, w} {
			if d, ok := one.Now(); !ok || d.Err == nil {
				t.Errorf("the page is not told: %+v", d)
			}
		}
		if slices.Sort(faults); len(faults) != 2 || faults[0] != "no template" || !strings.HasPrefix(faults[1], "panic: no such field") {
			t.Errorf("faults: %q", faults)
		}
	})
}
