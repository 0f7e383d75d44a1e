package store

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// secret is a document of about 2 KiB in JSON, in the form of a plan Secret.
type secret struct {
	Name string            `json:"name"`
	Data map[string][]byte `json:"data"`
}

func newSecret(name string) secret {
	return secret{Name: name, Data: map[string][]byte{
		"plan":             []byte(strings.Repeat(`{"files":[]}`, 100)),
		"applied-checksum": []byte(strings.Repeat("a", 64)),
		"applied-output":   []byte(strings.Repeat("b", 200)),
	}}
}

func openSecrets(tb testing.TB) (*Store, *Collection[secret]) {
	tb.Helper()
	secrets := NewCollection[secret]("secrets", true)
	s, err := openWith(tb.Context(), Options{DataDir: tb.TempDir()}, nil, secrets)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s, secrets
}

// BenchmarkCommit writes 2 KiB sensitive documents by many goroutines at once, fsync
// included.
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s, secrets := openSecrets(b)
			work := make(chan int)
			var group sync.WaitGroup
			latencies := make([][]time.Duration, writers)
			b.ResetTimer()
			for w := range writers {
				group.Go(func() {
					for i := range work {
						key := fmt.Sprintf("ns/%d", i)
						start := time.Now()
						if _, err := s.Commit(context.Background(), secrets.Creating(key, newSecret(key))); err != nil {
							b.Error(err)
							return
						}
						latencies[w] = append(latencies[w], time.Since(start))
					}
				})
			}
			for i := range b.N {
				work <- i
			}
			close(work)
			group.Wait()
			b.StopTimer()
			all := slices.Concat(latencies...)
			slices.Sort(all)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "median-ms")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// BenchmarkRollOut is the store's part of a new plan to 5,000 agents that all report
// back: each document is read, changed and written three times, all agents at once.
func BenchmarkRollOut(b *testing.B) {
	const agents = 5000
	for range b.N {
		b.StopTimer()
		s, secrets := openSecrets(b)
		for chunk := range slices.Chunk(slices.Collect(numbers(agents)), 500) {
			var ops []Op
			for _, i := range chunk {
				ops = append(ops, secrets.Creating(fmt.Sprint("ns/", i), newSecret("x")))
			}
			if _, err := s.Commit(b.Context(), ops...); err != nil {
				b.Fatal(err)
			}
		}
		var group sync.WaitGroup
		before := cpuTime(b)
		b.StartTimer()
		for i := range agents {
			group.Go(func() {
				for n := range 3 {
					_, err := secrets.Modify(b.Context(), fmt.Sprint("ns/", i), func(v secret) (secret, error) {
						v.Data["applied-output"] = []byte(strings.Repeat("c", 200+n))
						return v, nil
					})
					if err != nil {
						b.Error(err)
					}
				}
			})
		}
		group.Wait()
		b.StopTimer()
		b.ReportMetric((cpuTime(b) - before).Seconds(), "cpu-s")
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		b.ReportMetric(float64(memory.HeapInuse)/(1<<20), "heap-MiB")
		b.ReportMetric(float64(memory.Sys)/(1<<20), "sys-MiB")
		b.ReportMetric(3*agents/b.Elapsed().Seconds()*float64(b.N), "writes/s")
	}
}

// cpuTime is what this process has used of the processors, so that a busy machine does
// not spoil the figure.
func cpuTime(tb testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func numbers(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// BenchmarkPast reads the changes of as many documents of 2 KiB as a start reads, of which one in a hundred was removed.
func BenchmarkPast(b *testing.B) {
	s, secrets := openSecrets(b)
	for i := range pastKept - pastKept/100 {
		key := fmt.Sprintf("ns/%d", i)
		if _, err := s.Commit(b.Context(), secrets.Creating(key, newSecret(key))); err != nil {
			b.Fatal(err)
		}
		if i%100 == 0 {
			if err := secrets.Delete(b.Context(), key, 0); err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		all, floor, err := s.Past(b.Context(), s.Revision())
		if err != nil || len(all) == 0 {
			b.Fatal(len(all), floor, err)
		}
		b.ReportMetric(float64(len(all)), "changes")
	}
}
