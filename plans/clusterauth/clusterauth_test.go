package clusterauth

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"
)

const key = "dddddddddddddddddddddddddddddddddddddddddddddddddddddd"

// peers are hashes of key as others write them: the first was published with the original's hasher,
// the others were made with Python's hashlib.
var peers = map[string]string{
	"SHA3-512": "$3:1:uFrxm43ggfw:zsN1zEFC7SvABTdR58o7yjIqfrI4cQ/HSYz3jBwwVnx5X+/ph4etGDIU9dvIYuy1IvnYUVe6a/Ar95xE+gfjhA",
	"SHA-256":  "$2:AQIDBAUGBwg:nh8ZW+W1/lUc/q3VX2OgrZuX1EZ7fMUuBOc9Jc9QSh8",
	"scrypt":   "$1:0102030405060708:15:8:1:nSJeLI3flMiCKv20DAB9yEvnTUEU4UsvtWvDNYy7BI4qUB3iZGlIyspHroPOIDrsuYBVADpl38/g3f3Cvhyxow",
}

func TestHashesOfOthersAreVerified(t *testing.T) {
	for name, hash := range peers {
		t.Run(name, func(t *testing.T) {
			if err := Verify(hash, key); err != nil {
				t.Error(err)
			}
			if err := Verify(hash, key[1:]+"b"); !errors.Is(err, ErrMismatch) {
				t.Errorf("another key: %v", err)
			}
			if err := Verify(hash[:len(hash)-4], key); err == nil {
				t.Error("a part of the hash is enough")
			}
		})
	}
}

func TestBadHashesAreRefused(t *testing.T) {
	for _, hash := range []string{
		"", "$", "3:1:uFrxm43ggfw:zsN1", "$3:2:uFrxm43ggfw:zsN1", "$3:1:uFrxm43ggfw", "$3:1:#Frxm43ggfw:zsN1", "$3:1:uFrxm43ggfw:#sN1",
		"$2:uFrxm43ggfw", "$2:uFrxm43ggfw:zsN1=", "$4:1:uFrxm43ggfw:zsN1", "$1:zz:15:8:1:zsN1", "$1:00:30:8:1:zsN1", "$1:00:15:8:1", "$A:1:a:b",
		"$2::" + strings.Repeat("A", maxHash), hex.EncodeToString(make([]byte, 32)),
	} {
		if err := Verify(hash, key); !errors.Is(err, ErrForm) {
			t.Errorf("%.40q: %v, want ErrForm", hash, err)
		}
	}
	for _, hash := range []string{"$2::", "$3:1::"} { // a hash of nothing is no user's
		if err := Verify(hash, ""); !errors.Is(err, ErrMismatch) {
			t.Errorf("%q: %v, want ErrMismatch", hash, err)
		}
	}
}

func TestHashes(t *testing.T) {
	if got := hashWith([]byte("\xb8\x5a\xf1\x9b\x8d\xe0\x81\xfc"), key); got != peers["SHA3-512"] {
		t.Errorf("got %s, want what the original writes: %s", got, peers["SHA3-512"])
	}
	one, two := Hash(key), Hash(key)
	if one == two || Verify(one, key) != nil || Verify(two, key) != nil || strings.Contains(one, key) {
		t.Errorf("%s and %s are not two hashes of one key", one, two)
	}
	sum := sha256.Sum256([]byte(key))
	hash, err := OfSum(hex.EncodeToString(sum[:]))
	if err != nil || Verify(hash, key) != nil || Verify(hash, key+"x") == nil {
		t.Errorf("of a sum: %s, %v", hash, err)
	}
	for _, bad := range []string{"", "zz", "00", strings.Repeat("z", 64)} {
		if hash, err := OfSum(bad); err == nil {
			t.Errorf("%q: %s", bad, hash)
		}
	}
}

func TestExpired(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for end, want := range map[string]bool{
		"": false, "2026-11-23T12:00:01Z": false, "2026-11-23T12:00:00Z": true, "2026-11-23T13:00:00+01:00": true, "tomorrow": true,
	} {
		if got := (Token{ExpiresAt: end}).Expired(now); got != want {
			t.Errorf("%q: %v", end, got)
		}
	}
}

func TestPaths(t *testing.T) {
	if got := Path(Tokens, ""); got != "/apis/cluster.cattle.io/v3/namespaces/cattle-system/clusterauthtokens" {
		t.Error(got)
	}
	if got := Path(Users, "u-1"); got != "/apis/cluster.cattle.io/v3/namespaces/cattle-system/clusteruserattributes/u-1" {
		t.Error(got)
	}
}
