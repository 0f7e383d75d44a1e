package tunnel

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// frame is a websocket frame as a client (masked) or a server sends it.
func frame(fin bool, opcode byte, mask *[4]byte, payload []byte) []byte {
	first := opcode
	if fin {
		first |= 0x80
	}
	b := []byte{first}
	masked := byte(0)
	if mask != nil {
		masked = 0x80
	}
	switch n := len(payload); {
	case n < 126:
		b = append(b, masked|byte(n))
	case n < 1<<16:
		b = append(b, masked|126, byte(n>>8), byte(n))
	default:
		b = append(b, masked|127, 0, 0, 0, 0, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	if mask != nil {
		b = append(b, mask[:]...)
	}
	for i, v := range payload {
		if mask != nil {
			v ^= mask[i%4]
		}
		b = append(b, v)
	}
	return b
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var testMask = [4]byte{1, 0x22, 0xf0, 9}

// The messages are the vectors of the wire format, which come from the original.
func TestFramesReadTheVectors(t *testing.T) {
	for _, tc := range []struct {
		name, head, text string
		want             part
	}{
		{"connect", "0a0404b0ea01", "tcp/10.43.0.1:443", part{typeConnect, 2, 17, true}},
		{"connect to a socket file", "0c0604b0ea01", "unix//var/run/docker.sock", part{typeConnect, 3, 25, true}},
		{"data", "0e0402b0ea01", "hi", part{typeData, 2, 2, true}},
		{"error", "100406", "EOF", part{typeError, 2, 3, true}},
		{"pause", "12040c", "", part{typePause, 2, 0, true}},
		{"resume", "14040e", "", part{typeResume, 2, 0, true}},
		{"sync", "160010" + "0200000000000000" + "0300000000000000", "", part{typeSync, 0, 16, true}},
		{"add client", "180008", "c-abcde/77", part{typeAddClient, 0, 10, true}},
	} {
		message := append(unhex(t, tc.head), tc.text...)
		for how, stream := range map[string][]byte{
			"whole":    frame(true, opBinary, &testMask, message),
			"unmasked": frame(true, opBinary, nil, message),
			"in two": append(append(frame(false, opBinary, &testMask, message[:1]), frame(true, 9, &testMask, []byte("ping"))...),
				frame(true, opContinuation, &testMask, message[1:])...),
		} {
			for _, step := range []int{1, 3, len(stream)} {
				var got []part
				f := frames{now: time.Now, see: func(p part) error { got = append(got, p); return nil }}
				for rest := stream; len(rest) > 0; rest = rest[min(step, len(rest)):] {
					if err := f.feed(rest[:min(step, len(rest))]); err != nil {
						t.Fatalf("%s %s: %v", tc.name, how, err)
					}
				}
				if diff := cmp.Diff([]part{tc.want}, got, cmp.AllowUnexported(part{})); diff != "" {
					t.Errorf("%s %s in steps of %d (-want +got):\n%s", tc.name, how, step, diff)
				}
			}
		}
	}
}

func TestFramesCountAllFragments(t *testing.T) {
	data := append(unhex(t, "0e0402b0ea01"), make([]byte, 100)...)
	var total int64
	f := frames{now: time.Now, see: func(p part) error { total += p.payload; return nil }}
	stream := frame(false, opBinary, &testMask, data)
	for range 3 {
		stream = append(stream, frame(false, opContinuation, &testMask, make([]byte, 1000))...)
	}
	stream = append(stream, frame(true, opContinuation, &testMask, nil)...)
	if err := f.feed(stream); err != nil || total != 3100 {
		t.Errorf("counted %d bytes, %v; want 3100", total, err)
	}
}

func TestFramesRefuse(t *testing.T) {
	many := make([]byte, 0, 1000)
	for range maxControls + 1 {
		many = append(many, frame(true, 9, &testMask, nil)...)
	}
	big := append(frame(true, opBinary, &testMask, nil)[:1], 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 1, 2, 3, 4) // 1 GiB
	slices := frame(false, opBinary, nil, append(unhex(t, "0e0402b0ea01"), make([]byte, maxMessage-100)...))
	slices = append(slices, frame(false, opContinuation, nil, make([]byte, 200))...)
	for _, tc := range []struct {
		name   string
		stream []byte
		want   string
	}{
		{"text", frame(true, opText, &testMask, []byte("hello")), "text message"},
		{"1 GiB announced", big, "1073741824 bytes"},
		{"the highest length", append([]byte{0x82, 0xff}, unhex(t, "ffffffffffffffff01020304")...), "more than"},
		{"too much in fragments", slices, "more than 4194304"},
		{"fragment of nothing", frame(true, opContinuation, &testMask, []byte("x")), "not begun"},
		{"ping flood", many, "more than 200 pings"},
		{"large ping", append([]byte{0x89, 0xfe, 0x01, 0x00}, testMask[:]...), "control frame of 256 bytes"},
		{"reserved kind", frame(true, 5, &testMask, nil), "unknown kind"},
		{"no header", frame(true, opBinary, &testMask, []byte{0x80}), "header cannot be read"},
		{"endless number", frame(true, opBinary, &testMask, []byte(strings.Repeat("\xff", 30))), "header cannot be read"},
		{"empty message", frame(true, opBinary, &testMask, nil), "header cannot be read"},
	} {
		f := frames{now: time.Now}
		if err := f.feed(append(tc.stream, 0)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q in it", tc.name, err, tc.want)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(frame(true, opBinary, &testMask, unhex(f, "0e0402b0ea016869")), 3)
	f.Add(append(frame(false, opBinary, nil, unhex(f, "0e")), frame(true, opClose, nil, []byte("\x03\xe8bye"))...), 1)
	f.Fuzz(func(t *testing.T, stream []byte, step int) {
		step = max(1, step&0xff)
		run := func(step int) (parts []part, text string) {
			r := frames{now: func() time.Time { return time.Time{} }, see: func(p part) error { parts = append(parts, p); return nil }}
			for rest := stream; len(rest) > 0; rest = rest[min(step, len(rest)):] {
				if err := r.feed(rest[:min(step, len(rest))]); err != nil {
					return parts, err.Error()
				}
			}
			return parts, ""
		}
		oneByOne, fault1 := run(1)
		atOnce, fault2 := run(step)
		if diff := cmp.Diff(oneByOne, atOnce, cmp.AllowUnexported(part{})); diff != "" || fault1 != fault2 {
			t.Errorf("depends on how it comes: %s\n%q %q", diff, fault1, fault2)
		}
	})
}
