package tunnel

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
)

// BenchmarkThroughput is the host-to-server direction, over TLS on loopback.
func BenchmarkThroughput(b *testing.B) {
	for _, streams := range []int{1, 8} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			bed := newBed(b)
			bed.join(b, "m1", inProcess(map[string]func(net.Conn){"flood:1": func(c net.Conn) { io.Copy(c, zeros{}) }}))
			const each = 16 << 20
			b.SetBytes(each * int64(streams))
			for b.Loop() {
				done := make(chan error, streams)
				for range streams {
					c := bed.dial(b, "m1", "flood:1")
					go func() {
						_, err := io.CopyN(io.Discard, c, each)
						c.Close()
						done <- err
					}()
				}
				for range streams {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkIdle prints what one open tunnel costs both sides together, TLS and stacks included.
func BenchmarkIdle(b *testing.B) {
	const tunnels = 200
	for b.Loop() {
		bed := newBed(b)
		before := inUse()
		var stops []func()
		for i := range tunnels {
			stops = append(stops, bed.join(b, fmt.Sprint(i), nil))
		}
		b.ReportMetric(float64(inUse()-before)/tunnels/1024, "KiB/tunnel")
		for _, stop := range stops {
			stop()
		}
	}
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
