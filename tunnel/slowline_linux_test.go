package tunnel

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/test/skips"
)

// BenchmarkSlowLine measures an interactive connection beside bulk ones where the line is
// what is scarce: 100 Mbit/s from the host, which a router with a buffer of 50 ms ends.
// It needs root, ip and tc.
func BenchmarkSlowLine(b *testing.B) {
	line := newSlowLine(b, "100mbit", "50ms")
	for _, way := range []struct {
		name string
		open func(testing.TB) DialFunc
	}{
		{"remotedialer", func(t testing.TB) DialFunc { return libraryAlone(t, line.listen(t)) }},
		{"original-protocol", func(t testing.TB) DialFunc { return ourEnds(t, line.listen(t), true) }},
		{"tunnel", func(t testing.TB) DialFunc { return ourEnds(t, line.listen(t), false) }},
	} {
		b.Run(way.name+"/echo-beside-8", func(b *testing.B) { echoBeside(b, way.open(b), 8) })
	}
}

// slowLine is a network namespace at the other end of a line; the server listens there.
type slowLine struct{ space, address string }

func newSlowLine(t testing.TB, rate, buffer string) slowLine {
	if os.Geteuid() != 0 {
		skips.Skip(t, "only root can make a line")
	}
	id := fmt.Sprint(os.Getpid())
	l := slowLine{"drover-line-" + id, "10.214.77.2"}
	near, far := "drvn"+id, "drvf"+id
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", l.space).Run() }) // the line goes with it
	for _, command := range []string{
		"ip netns add " + l.space,
		"ip link add " + near + " type veth peer name " + far + " netns " + l.space,
		"ip address add 10.214.77.1/30 dev " + near,
		"ip link set " + near + " up",
		"ip -n " + l.space + " address add " + l.address + "/30 dev " + far,
		"ip -n " + l.space + " link set " + far + " up",
		// What most hosts use, whatever this machine does.
		"ip route change 10.214.77.0/30 dev " + near + " src 10.214.77.1 congctl cubic",
		"tc qdisc add dev " + near + " root tbf rate " + rate + " burst 32kb latency " + buffer,
	} {
		words := strings.Fields(command)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			skips.Skipf(t, "this machine makes no line: %s: %v: %s", command, err, out)
		}
	}
	return l
}

// listen makes a listener at the far end. A socket stays in the namespace it was made in;
// the thread that went there ends with its goroutine.
func (l slowLine) listen(t testing.TB) net.Listener {
	type result struct {
		net.Listener
		error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread()
		space, err := os.Open("/run/netns/" + l.space)
		if err != nil {
			made <- result{nil, err}
			return
		}
		defer space.Close()
		if err := unix.Setns(int(space.Fd()), unix.CLONE_NEWNET); err != nil {
			made <- result{nil, err}
			return
		}
		listener, err := net.Listen("tcp", l.address+":0")
		made <- result{listener, err}
	}()
	r := <-made
	if r.error != nil {
		t.Fatal(r.error)
	}
	return r.Listener
}
