// How often one address may be wrong, and how many machines one token brings from there.

package registration

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/clientip"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
)

// A host with a wrong token tries again every 5 s; that much is let through for ever.
var wrongRate = rate{burst: 20, period: 5 * time.Second}

// maxLimited bounds the memory: beyond it, further keys share one allowance.
const maxLimited = 4096

// limiter lets each key do so much at once, and then so much by time. The zero value is ready.
type limiter[K comparable] struct {
	mu    sync.Mutex
	keys  map[K]*allowance
	swept time.Time // when keys that were long quiet were dropped last
}

// allowance is a bucket that refills by one each period.
type allowance struct {
	left float64
	at   time.Time
}

// rate is how much is let through at once, and how long one more takes to come.
type rate struct {
	burst  float64
	period time.Duration
}

// take notes one more and is how long the key has to wait; 0 for not.
func (l *limiter[K]) take(key K, r rate, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(key, r, now)
	a.refill(r, now)
	if a.left < 1 {
		return time.Duration((1-a.left)*float64(r.period)).Round(time.Second) + time.Second
	}
	a.left--
	return 0
}

func (l *limiter[K]) of(key K, r rate, now time.Time) *allowance {
	if a, ok := l.keys[key]; ok {
		return a
	}
	if l.keys == nil {
		l.keys = map[K]*allowance{}
	}
	if len(l.keys) >= maxLimited && now.Sub(l.swept) >= r.period {
		l.swept = now
		for other, a := range l.keys {
			if a.refill(r, now); a.left >= r.burst {
				delete(l.keys, other)
			}
		}
	}
	if len(l.keys) >= maxLimited {
		var shared K
		key = shared
		if a, ok := l.keys[key]; ok {
			return a
		}
	}
	a := &allowance{left: r.burst, at: now}
	l.keys[key] = a
	return a
}

func (a *allowance) refill(r rate, now time.Time) {
	if d := now.Sub(a.at); d > 0 {
		a.left += float64(d) / float64(r.period)
		a.at = now
	}
	a.left = min(r.burst, a.left)
}

// origin is whom a host registers by.
func (g *Registration) origin(bearer, remote string) records.Origin {
	o := records.Origin{Source: clientip.Of(remote).String()}
	if token, ok := g.state.RegistrationTokensByHash.First(randomid.Hash(bearer)); ok {
		o.Token = token.Value.ClusterID + "/" + token.Value.Name
	}
	return o
}

// Room says whether one more Docker host may come by a token from an address, and whom it registers by then.
// The error is a *norman.Error.
func (g *Registration) Room(token, remote string) (records.Origin, error) {
	from := g.origin(token, remote)
	return from, g.room(from)
}

// room says whether one more machine may come from there. A token that got into the wrong
// hands cannot fill the store, and those that are hosts of its owner are not asked: a host
// that registers again brings no machine.
func (g *Registration) room(from records.Origin) error {
	if quota := g.number("registration-quota"); quota > 0 && g.state.MachinesByOrigin.Count(from) >= quota {
		return norman.Errorf(http.StatusForbidden, "QuotaExceeded",
			"this registration token has brought %d machines from %s already; remove some of them, use another token, or raise the setting registration-quota", quota, from.Source)
	}
	perMinute := g.number("registration-rate-per-minute")
	if perMinute <= 0 {
		return nil
	}
	if wait := g.arrivals.take(from, rate{burst: float64(perMinute), period: time.Minute / time.Duration(perMinute)}, g.now()); wait > 0 {
		e := norman.Errorf(http.StatusTooManyRequests, norman.TooManyRequests,
			"this registration token brings more than %d machines a minute from %s (setting registration-rate-per-minute); try again later", perMinute, from.Source)
		e.RetryAfter = wait
		return e
	}
	return nil
}

// number is a setting; 0 when it is empty.
func (g *Registration) number(name string) int {
	n, err := strconv.Atoi(g.settings.Get(name).Value)
	if err != nil {
		return 0
	}
	return n
}
