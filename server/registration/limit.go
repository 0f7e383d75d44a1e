// How often one address may be wrong.

package registration

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// A host with a wrong token tries again every 5 s; that much is let through for ever.
const (
	wrongBurst  = 20
	wrongPeriod = 5 * time.Second
	// wrongSources bounds the memory: beyond it, further sources share one allowance.
	wrongSources = 4096
)

// limiter counts wrong tokens by source, an IPv4 address or an IPv6 /64.
type limiter struct {
	mu      sync.Mutex
	sources map[netip.Prefix]*allowance
	swept   time.Time // when sources that were long quiet were dropped last
}

// allowance is a bucket that refills by one each wrongPeriod.
type allowance struct {
	left float64
	at   time.Time
}

func newLimiter() *limiter { return &limiter{sources: map[netip.Prefix]*allowance{}} }

// count notes one more wrong token and is how long the source has to wait; 0 for not yet.
func (l *limiter) count(remote string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(source(remote), now)
	a.refill(now)
	if a.left < 1 {
		return time.Duration((1-a.left)*float64(wrongPeriod)).Round(time.Second) + time.Second
	}
	a.left--
	return 0
}

func (l *limiter) of(source netip.Prefix, now time.Time) *allowance {
	if a, ok := l.sources[source]; ok {
		return a
	}
	if len(l.sources) >= wrongSources && now.Sub(l.swept) >= wrongPeriod {
		l.swept = now
		for other, a := range l.sources {
			if a.refill(now); a.left >= wrongBurst {
				delete(l.sources, other)
			}
		}
	}
	if len(l.sources) >= wrongSources {
		source = netip.Prefix{}
		if a, ok := l.sources[source]; ok {
			return a
		}
	}
	a := &allowance{left: wrongBurst, at: now}
	l.sources[source] = a
	return a
}

func (a *allowance) refill(now time.Time) {
	if d := now.Sub(a.at); d > 0 {
		a.left = min(wrongBurst, a.left+float64(d)/float64(wrongPeriod))
		a.at = now
	}
}

// source is who an address stands for; what cannot be read shares the zero one.
func source(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	address = address.Unmap().WithZone("")
	bits := 32
	if address.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(address, bits).Masked()
}
