// Package randomid makes the names and secrets that the server gives out, all from the
// operating system's random source.
package randomid

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// alphabet has no vowels, so that no words appear, and none of the characters that
// people mistake for each other (0 and o, 1 and l, 3 and e).
const alphabet = "bcdfghjklmnpqrstvwxz2456789"

// secretLength gives a secret more than 256 bits: 54 characters of 27 are 256.7.
const secretLength = 54

// ID is n characters of bcdfghjklmnpqrstvwxz2456789, each equally likely; n ≤ 0 gives "".
func ID(n int) string {
	if n <= 0 {
		return ""
	}
	// 243 = 9×27 is the largest multiple of the alphabet's length in a byte; bytes
	// above it are thrown away, since keeping them would favour some characters.
	const usable = 243
	id := make([]byte, 0, n)
	buffer := make([]byte, n+n/8+8)
	for len(id) < n {
		_, _ = rand.Read(buffer) // never fails: it ends the process when the system has no randomness
		for _, b := range buffer {
			if b < usable && len(id) < n {
				id = append(id, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(id)
}

// Secret is 54 characters of the alphabet of ID.
func Secret() string { return ID(secretLength) }

// UID is a random UUID (version 4, RFC 9562) in its text form.
func UID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, see ID
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	text := make([]byte, 0, 36)
	for i, part := range [][]byte{b[0:4], b[4:6], b[6:8], b[8:10], b[10:16]} {
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, part)
	}
	return string(text)
}

// Hash is the SHA-256 of a secret in lower-case hex: what is stored instead of the
// secret. It has no salt, so it is for secrets of this package and not for passwords.
func Hash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
