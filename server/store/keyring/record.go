// Package keyring encrypts the records of the store: the keys of a key file, and the form of a record.
//
// To rotate, put a new key into the file of every server, below the other lines, and
// restart them; then move it to the top everywhere and restart them. The first start
// after that encrypts everything with it, and the old key can be taken out.
package keyring

// This file holds the form of an encrypted record.
//
// A record is a header, a nonce, and the sealed JSON:
//
//	offset  length
//	0       3       D7 'd' 'r': never the beginning of JSON
//	3       1       the form: 1 for the JSON itself, 2 for the JSON in S2's block format
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
//
// A large record is compressed, since etcd copies and writes it several times over: where
// 5,000 hosts report at once, the server has a tenth less to do. What is sealed then
// has a length that depends on the content a little more than before; no reader sees it who
// does not hold the data directory.

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
)

const (
	keySize      = 32
	keyIDSize    = 8
	nonceSize    = 24
	headerSize   = len(recordMagic) + 1 + keyIDSize
	tagSize      = 16
	smallestSeal = headerSize + nonceSize + tagSize
	recordMagic  = "\xd7dr"

	plainForm      = 1
	compressedForm = 2
	// compressedFrom is the length from which JSON is compressed; there is little
	// to gain from what is shorter.
	compressedFrom = 512
	// maxScratch is the largest buffer that is kept for other records.
	maxScratch = 64 << 10
	// largestPlain is what a compressed record may become, far above what a request
	// to etcd has room for: the form says its length before it is read.
	largestPlain = 64 << 20
)

// ID names a key. It is the beginning of a hash of the key, so that a wrong key can
// never have the right id.
type ID [keyIDSize]byte

// String is the id in hex.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// recordKey is a key that seals records.
type recordKey struct {
	id     ID
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

// Ring is the keys of one key file: the first encrypts, all decrypt.
type Ring struct {
	path  string
	first *recordKey
	all   map[ID]*recordKey
	// scratch has *[]byte for what is compressed.
	scratch sync.Pool
}

// FirstID is the key that encrypts.
func (r *Ring) FirstID() ID { return r.first.id }

// Path is the key file.
func (r *Ring) Path() string { return r.path }

// Has says whether the ring has a key, named as ID's String does.
func (r *Ring) Has(id string) bool {
	for known := range r.all {
		if known.String() == id {
			return true
		}
	}
	return false
}

// Seal encrypts the JSON of a record for its place, the key in etcd. The error is that of the cipher.
func (r *Ring) Seal(etcdKey string, plain []byte) ([]byte, error) {
	form := byte(plainForm)
	if len(plain) >= compressedFrom {
		scratch, _ := r.scratch.Get().(*[]byte)
		if scratch == nil {
			scratch = new([]byte)
		}
		defer r.scratch.Put(scratch)
		compressed := s2.Encode((*scratch)[:cap(*scratch)], plain)
		if cap(compressed) <= maxScratch {
			*scratch = compressed
		}
		if len(compressed) < len(plain) {
			plain, form = compressed, compressedForm
		}
	}
	return r.sealForm(etcdKey, form, plain)
}

func (r *Ring) sealForm(etcdKey string, form byte, content []byte) ([]byte, error) {
	record := header(r.first.id, form, len(content))
	nonce := record[headerSize:]
	if _, err := rand.Read(nonce); err != nil {
		return nil, fmt.Errorf("make a nonce: %w", err)
	}
	sealed, err := r.first.seal(record, nonce, content, additionalData(record[:headerSize], etcdKey))
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return sealed, nil
}

// header is the beginning of a record with room for a nonce, and for so much content behind it.
func header(id ID, form byte, content int) []byte {
	record := make([]byte, headerSize+nonceSize, smallestSeal+content)
	copy(record, recordMagic)
	record[len(recordMagic)] = form
	copy(record[len(recordMagic)+1:], id[:])
	return record
}

// Open is the JSON that Seal was given for the same place. All else that etcd holds there is refused.
func (r *Ring) Open(etcdKey string, record []byte) ([]byte, error) {
	id, form, err := readHeader(record)
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
	if form == plainForm {
		return plain, nil
	}
	return expand(plain)
}

// expand is the JSON of a record in the compressed form.
func expand(compressed []byte) ([]byte, error) {
	n, err := s2.DecodedLen(compressed)
	if err != nil {
		return nil, fmt.Errorf("the encrypted record is not in S2's format: %w", err)
	}
	if n > largestPlain {
		return nil, fmt.Errorf("the encrypted record would be %d bytes long, at most %d are read", n, largestPlain)
	}
	plain, err := s2.Decode(make([]byte, n), compressed)
	if err != nil {
		return nil, fmt.Errorf("the encrypted record is not in S2's format: %w", err)
	}
	return plain, nil
}

// readHeader returns the key that a record says it was sealed with, and its form.
func readHeader(record []byte) (ID, byte, error) {
	if !IsSealed(record) {
		return ID{}, 0, errors.New("the record should be encrypted and is not")
	}
	if len(record) < smallestSeal {
		return ID{}, 0, fmt.Errorf("the encrypted record is cut off: %d bytes, at least %d are expected", len(record), smallestSeal)
	}
	form := record[len(recordMagic)]
	if form != plainForm && form != compressedForm {
		return ID{}, 0, fmt.Errorf("the encrypted record is of form %d, only %d and %d are known", form, plainForm, compressedForm)
	}
	return ID(record[len(recordMagic)+1 : headerSize]), form, nil
}

// KeyOf returns the key that a record says it was sealed with. The error says that it is no record.
func KeyOf(record []byte) (ID, error) {
	id, _, err := readHeader(record)
	return id, err
}

// IsSealed says whether a value of etcd is an encrypted record.
func IsSealed(value []byte) bool { return bytes.HasPrefix(value, []byte(recordMagic)) }

func additionalData(header []byte, etcdKey string) []byte {
	return append(bytes.Clone(header), etcdKey...)
}
