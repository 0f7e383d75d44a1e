// The forms in which the hash of a token's key is written down.

package clusterauth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/scrypt"
)

// Forms of hashes by their first part. All base64 is without padding.
const (
	sha3Form   = "$3:1:" // $3:1:<salt>:<SHA3-512 of salt and key>
	sha256Form = "$2:"   // $2:<salt>:<SHA-256 of salt and key>
	scryptForm = "$1:"   // $1:<salt in hex>:15:8:1:<scrypt of key with salt>
	// scryptCost are the only parameters that were ever written. Others could ask for any amount of memory.
	scryptCost = "15:8:1"

	saltSize = 8
	// maxHash bounds what is looked at.
	maxHash = 512
)

var (
	// ErrMismatch says that a key is not the one of a hash.
	ErrMismatch = errors.New("the key of the token is wrong")
	// ErrForm says that a hash is in none of the forms.
	ErrForm = errors.New("the hash of the token has an unknown form")
)

// Hash is a new hash of a key, with a salt of its own.
func Hash(key string) string {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails: it ends the process when the system has no randomness
	return hashWith(salt, key)
}

func hashWith(salt []byte, key string) string {
	return sha3Form + encoding.EncodeToString(salt) + ":" + encoding.EncodeToString(sumSHA3(salt, key))
}

// OfSum is the hash of a key of which only the SHA-256 is known, in hex: it has no salt. Another text than 64 hexadecimal digits is an error.
func OfSum(sum string) (string, error) {
	b, err := hex.DecodeString(sum)
	if err != nil || len(b) != sha256.Size {
		return "", fmt.Errorf("%.80q is not a SHA-256 in hex", sum)
	}
	return sha256Form + ":" + encoding.EncodeToString(b), nil
}

// Verify compares a key with a hash of any form. The error is nil, ErrMismatch or ErrForm.
func Verify(hash, key string) error {
	if len(hash) > maxHash {
		return ErrForm
	}
	want, got, err := parse(hash, key)
	switch {
	case err != nil:
		return err
	case len(want) == 0 || subtle.ConstantTimeCompare(want, got) != 1:
		return ErrMismatch
	}
	return nil
}

var encoding = base64.RawStdEncoding

// parse is the sum in a hash, and that of the key in the same form.
func parse(hash, key string) (want, got []byte, err error) {
	if rest, ok := strings.CutPrefix(hash, sha3Form); ok {
		salt, sum, err := salted(rest, encoding.DecodeString)
		return sum, sumSHA3(salt, key), err
	}
	if rest, ok := strings.CutPrefix(hash, sha256Form); ok {
		salt, sum, err := salted(rest, encoding.DecodeString)
		got := sha256.Sum256(append(salt, key...))
		return sum, got[:], err
	}
	rest, ok := strings.CutPrefix(hash, scryptForm)
	salt, rest, whole := strings.Cut(rest, ":")
	sum, paid := strings.CutPrefix(rest, scryptCost+":")
	if !ok || !whole || !paid {
		return nil, nil, ErrForm
	}
	saltBytes, want, err := salted(salt+":"+sum, hex.DecodeString)
	if err != nil {
		return nil, nil, err
	}
	got, err = scrypt.Key([]byte(key), saltBytes, 1<<15, 8, 1, 64)
	return want, got, err
}

// salted are the two parts of "<salt>:<sum>".
func salted(s string, decodeSalt func(string) ([]byte, error)) (salt, sum []byte, err error) {
	first, second, ok := strings.Cut(s, ":")
	salt, saltErr := decodeSalt(first)
	sum, sumErr := encoding.DecodeString(second)
	if !ok || saltErr != nil || sumErr != nil {
		return nil, nil, ErrForm
	}
	return salt, sum, nil
}

func sumSHA3(salt []byte, key string) []byte {
	sum := sha3.Sum512(append(salt[:len(salt):len(salt)], key...))
	return sum[:]
}
