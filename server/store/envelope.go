package store

// This file holds the form of an encrypted record.
//
// A record is a header, a nonce, and the sealed JSON:
//
//	offset  length
//	0       4       D7 'd' 'r' 01: never the beginning of JSON; the last byte is the version of this form
//	4       8       id of the key
//	12      24      nonce, from the system's random source
//	36      n+16    ciphertext and tag
//
// It is sealed by AES-256-GCM in the way of XAES-256-GCM (c2sp.org/XAES-256-GCM): the
// first half of the nonce derives a key of its own for the record, the second half is
// GCM's nonce under that key. GCM with one key and random 12-byte nonces must stop at
// 2³² records, since a nonce that comes twice gives the plaintexts away; with 24 bytes
// no number of writes that a server can do comes near a repetition.
//
// Header and etcd key are authenticated with it: a record that was copied to another
// key does not open.

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

const (
	keySize      = 32
	keyIDSize    = 8
	nonceSize    = 24
	headerSize   = len(recordMagic) + keyIDSize
	tagSize      = 16
	smallestSeal = headerSize + nonceSize + tagSize
	recordMagic  = "\xd7dr\x01"
)

// keyID names a key. It is the beginning of a hash of the key, so that a wrong key can
// never have the right id.
type keyID [keyIDSize]byte

// String is the id in hex.
func (id keyID) String() string { return hex.EncodeToString(id[:]) }

// recordKey is a key that seals records.
type recordKey struct {
	id     keyID
	secret [keySize]byte
	block  cipher.Block
	subkey [aes.BlockSize]byte // K1 of CMAC (NIST SP 800-38B)
}

func newRecordKey(secret [keySize]byte) (*recordKey, error) {
	block, err := aes.NewCipher(secret[:])
	if err != nil {
		return nil, fmt.Errorf("make the cipher of a key: %w", err)
	}
	k := &recordKey{secret: secret, block: block}
	sum := sha256.Sum256(append([]byte("drover record key id\x00"), secret[:]...))
	copy(k.id[:], sum[:])
	block.Encrypt(k.subkey[:], k.subkey[:])
	k.double()
	return k, nil
}

// double multiplies the subkey by x in GF(2¹²⁸).
func (k *recordKey) double() {
	carry := k.subkey[0] >> 7
	for i := range len(k.subkey) - 1 {
		k.subkey[i] = k.subkey[i]<<1 | k.subkey[i+1]>>7
	}
	last := len(k.subkey) - 1
	k.subkey[last] = k.subkey[last]<<1 ^ carry*0x87
}

// derived is the AEAD for one record: its key is CMAC of a counter, a label and the
// first half of the nonce.
func (k *recordKey) derived(nonce []byte) (cipher.AEAD, error) {
	var key [keySize]byte
	for half := range 2 {
		input := key[half*aes.BlockSize : (half+1)*aes.BlockSize]
		copy(input, []byte{0, byte(half + 1), 'X', 0})
		copy(input[4:], nonce[:nonceSize/2])
		for i := range input {
			input[i] ^= k.subkey[i]
		}
		k.block.Encrypt(input, input)
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seal encrypts plain with a nonce, appending to prefix.
func (k *recordKey) seal(prefix, nonce, plain, additional []byte) ([]byte, error) {
	aead, err := k.derived(nonce)
	if err != nil {
		return nil, err
	}
	return aead.Seal(prefix, nonce[nonceSize/2:], plain, additional), nil
}

// open decrypts what seal made.
func (k *recordKey) open(nonce, sealed, additional []byte) ([]byte, error) {
	aead, err := k.derived(nonce)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, nonce[nonceSize/2:], sealed, additional)
}

// keyring is the keys of one key file: the first encrypts, all decrypt.
type keyring struct {
	path  string
	first *recordKey
	all   map[keyID]*recordKey
}

func (r *keyring) seal(etcdKey string, plain []byte) ([]byte, error) {
	record := make([]byte, headerSize+nonceSize, smallestSeal+len(plain))
	copy(record, recordMagic)
	copy(record[len(recordMagic):], r.first.id[:])
	nonce := record[headerSize:]
	if _, err := rand.Read(nonce); err != nil {
		return nil, fmt.Errorf("make a nonce: %w", err)
	}
	sealed, err := r.first.seal(record, nonce, plain, additionalData(record[:headerSize], etcdKey))
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return sealed, nil
}

func (r *keyring) open(etcdKey string, record []byte) ([]byte, error) {
	id, err := recordKeyID(record)
	if err != nil {
		return nil, err
	}
	key, ok := r.all[id]
	if !ok {
		return nil, fmt.Errorf("it is encrypted with key %s, which is not in %s: add that key to the file", id, r.path)
	}
	nonce, sealed := record[headerSize:headerSize+nonceSize], record[headerSize+nonceSize:]
	plain, err := key.open(nonce, sealed, additionalData(record[:headerSize], etcdKey))
	if err != nil {
		return nil, errors.New("the record does not decrypt: it was damaged, or written for another key")
	}
	return plain, nil
}

// recordKeyID is the key that a record says it was sealed with.
func recordKeyID(record []byte) (keyID, error) {
	switch {
	case !bytes.HasPrefix(record, []byte(recordMagic[:3])):
		return keyID{}, errors.New("the record should be encrypted and is not")
	case len(record) < smallestSeal:
		return keyID{}, fmt.Errorf("the encrypted record is cut off: %d bytes, at least %d are expected", len(record), smallestSeal)
	case record[3] != recordMagic[3]:
		return keyID{}, fmt.Errorf("the encrypted record is of form %d, only %d is known", record[3], recordMagic[3])
	}
	return keyID(record[len(recordMagic):headerSize]), nil
}

func additionalData(header []byte, etcdKey string) []byte {
	return append(bytes.Clone(header), etcdKey...)
}
