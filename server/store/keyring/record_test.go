package keyring

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
)

// must returns v, or ends the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

func testKey(tb testing.TB, fill byte) *recordKey {
	tb.Helper()
	return must(newRecordKey([keySize]byte(bytes.Repeat([]byte{fill}, keySize))))(tb)
}

func testRing(tb testing.TB, fills ...byte) *Ring {
	tb.Helper()
	ring := &Ring{path: "/keys", all: make(map[ID]*recordKey)}
	for _, fill := range fills {
		key := testKey(tb, fill)
		ring.all[key.id] = key
		if ring.first == nil {
			ring.first = key
		}
	}
	return ring
}

// The test vectors of c2sp.org/XAES-256-GCM.
func TestCipher(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		fill       byte
		additional string
		want       string
	}{
		{"first bit of the subkey clear", 1, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"},
		{"first bit of the subkey set", 3, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nonce := []byte("ABCDEFGHIJKLMNOPQRSTUVWX")
			key := testKey(t, c.fill)
			sealed := must(key.seal(nil, nonce, []byte("XAES-256-GCM"), []byte(c.additional)))(t)
			if got := hex.EncodeToString(sealed); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if plain := must(key.open(nonce, sealed, []byte(c.additional)))(t); string(plain) != "XAES-256-GCM" {
				t.Errorf("got back %q", plain)
			}
		})
	}
}

func TestEnvelope(t *testing.T) {
	t.Parallel()
	ring := testRing(t, 1, 2)
	record := must(ring.Seal("/a", []byte("hello")))(t)
	if again := must(ring.Seal("/a", []byte("hello")))(t); bytes.Equal(record[headerSize:headerSize+nonceSize], again[headerSize:headerSize+nonceSize]) {
		t.Error("two records have one nonce")
	}
	if got := must(ring.Open("/a", record))(t); string(got) != "hello" {
		t.Errorf("got back %q", got)
	}
	changed := func(at int) []byte {
		other := bytes.Clone(record)
		other[at] ^= 1
		return other
	}
	for _, c := range []struct {
		name   string
		ring   *Ring
		key    string
		record []byte
		want   string // a part of the error
	}{
		{"other place", ring, "/b", record, "damaged, or written for another key"},
		{"changed nonce", ring, "/a", changed(headerSize), "damaged"},
		{"changed text", ring, "/a", changed(headerSize + nonceSize), "damaged"},
		{"changed tag", ring, "/a", changed(len(record) - 1), "damaged"},
		{"changed key id", ring, "/a", changed(5), "which is not in /keys"},
		{"newer form", ring, "/a", changed(3), "of form 0, only 1 and 2 are known"},
		{"not encrypted", ring, "/a", []byte(`{"a":1}`), "should be encrypted and is not"},
		{"empty", ring, "/a", nil, "should be encrypted and is not"},
		{"cut off", ring, "/a", record[:smallestSeal-1], "cut off"},
		{"cut off in the text", ring, "/a", record[:len(record)-1], "damaged"},
		{"key taken away", testRing(t, 2), "/a", record, "is encrypted with key " + testKey(t, 1).id.String()},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain, err := c.ring.Open(c.key, c.record)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q and error %v, want one with %q", plain, err, c.want)
			}
		})
	}
}

// TestLargeRecordsAreCompressed, when that makes them smaller, and read in both forms.
func TestLargeRecordsAreCompressed(t *testing.T) {
	t.Parallel()
	ring := testRing(t, 1)
	random := make([]byte, 4096)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		plain   []byte
		form    byte
		largest int // that the record may be
	}{
		{"short", bytes.Repeat([]byte("a"), compressedFrom-1), plainForm, compressedFrom - 1 + smallestSeal},
		{"long", bytes.Repeat([]byte("a"), compressedFrom), compressedForm, 2 * smallestSeal},
		{"longer than what is pooled", bytes.Repeat([]byte("abcdefgh"), maxScratch), compressedForm, maxScratch},
		{"nothing to gain", random, plainForm, len(random) + smallestSeal},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 { // with a buffer of the time before
				record := must(ring.Seal("/a", c.plain))(t)
				if form := record[len(recordMagic)]; form != c.form {
					t.Errorf("is of form %d, want %d", form, c.form)
				}
				if len(record) > c.largest {
					t.Errorf("is %d bytes long, want at most %d", len(record), c.largest)
				}
				if got := must(ring.Open("/a", record))(t); !bytes.Equal(got, c.plain) {
					t.Error("another text came back")
				}
			}
		})
	}
}

// TestHostileCompression: who has the key could have made them; they are refused with a sentence.
func TestHostileCompression(t *testing.T) {
	t.Parallel()
	ring := testRing(t, 1)
	for _, c := range []struct{ name, content, want string }{
		{"no length", "", "not in S2's format"},
		{"another length", string(s2.Encode(nil, []byte("hello"))) + "x", "not in S2's format"},
		{"far too long", string(binary.AppendUvarint(nil, largestPlain+1)), "at most 67108864 are read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			record := must(ring.sealForm("/a", compressedForm, []byte(c.content)))(t)
			if plain, err := ring.Open("/a", record); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q and error %v, want one with %q", plain, err, c.want)
			}
		})
	}
}

// Whatever is in etcd, reading it ends with an error or with what was sealed.
func FuzzOpenRecord(f *testing.F) {
	ring := testRing(f, 1)
	const place = "/drover/d/secrets/a"
	// With a fixed nonce, so that every process of the fuzzer has the same record.
	nonce := []byte("ABCDEFGHIJKLMNOPQRSTUVWX")
	sealed := func(form byte, content []byte) []byte {
		record := header(ring.first.id, form, len(content))
		copy(record[headerSize:], nonce)
		return must(ring.first.seal(record, nonce, content, additionalData(record[:headerSize], place)))(f)
	}
	long := `{"text":"` + strings.Repeat("a", compressedFrom) + `"}`
	record, compressed := sealed(plainForm, []byte(`{"text":"a"}`)), sealed(compressedForm, s2.Encode(nil, []byte(long)))
	f.Add(record)
	f.Add(compressed)
	f.Add(record[:smallestSeal])
	f.Add([]byte(`{"text":"a"}`))
	f.Add([]byte(recordMagic))
	f.Add(append([]byte(recordMagic), make([]byte, 100)...))
	f.Fuzz(func(t *testing.T, input []byte) {
		plain, err := ring.Open(place, input)
		switch {
		case bytes.Equal(input, record) && string(plain) != `{"text":"a"}`, bytes.Equal(input, compressed) && string(plain) != long:
			t.Errorf("got back %q and error %v", plain, err)
		case !bytes.Equal(input, record) && !bytes.Equal(input, compressed) && err == nil:
			t.Errorf("a record that nobody sealed opens to %q", plain)
		}
	})
}
