// What a browser carries between this server, a directory and the command line. It is sealed and says when it ends, so that
// the server stores nothing for logins that are not finished, and any server of a store can go on with what another began.

package directories

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Journey is a login on its way through a browser.
type Journey struct {
	Kind string `json:"k"`
	// Nonce and Verifier are those of the Trip.
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	// Port is of the loopback address on which the command line waits, Challenge the base64url SHA-256 of what it proves itself
	// by, and Answer a text of its own that it gets back.
	Port      int    `json:"p"`
	Challenge string `json:"c"`
	Answer    string `json:"a,omitempty"`
	// To is where a login on the page leads instead, which has none of the three before.
	To string `json:"t,omitempty"`
	// Browser is the SHA-256 of a cookie of the browser that set out.
	Browser string `json:"b"`
}

// Arrival is a user who came through a directory: the command line that proves itself gets a token of theirs.
type Arrival struct {
	Kind      string `json:"k"`
	UserID    string `json:"u"`
	Challenge string `json:"c"`
}

// errSeal says no more than that: what is wrong with a seal is nothing that a browser needs to know.
var errSeal = errors.New("it is not of this server, or its time is over: begin the login again")

// Sealer seals. All servers of a store share its key.
type Sealer struct {
	aead cipher.AEAD
	now  func() time.Time
}

// NewSealer makes one of a secret that is long enough not to be guessed. The error is that of the cipher.
func NewSealer(secret string, now func() time.Time) (*Sealer, error) {
	key := sha256.Sum256([]byte("directories\x00" + secret))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, fmt.Errorf("make a cipher: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("make a cipher: %w", err)
	}
	return &Sealer{aead, now}, nil
}

type sealed struct {
	Ends  int64           `json:"e"` // Unix seconds
	Value json.RawMessage `json:"v"`
}

// Seal is a value of one use, good for a time. use keeps what is sealed for one thing from being taken for another. The error is that of JSON.
func (s *Sealer) Seal(use string, value any, good time.Duration) (string, error) {
	inner, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	text, err := json.Marshal(sealed{s.now().Add(good).Unix(), inner})
	if err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	nonce := make([]byte, s.aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nonce, nonce, text, []byte(use))), nil
}

// maxSealed bounds what is opened, in bytes.
const maxSealed = 8 << 10

// Open reads what Seal made of the same use. The error is the same for all that is wrong, so that it helps no forger.
func (s *Sealer) Open(use, text string, into any) error {
	if len(text) > maxSealed {
		return errSeal
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < s.aead.NonceSize() {
		return errSeal
	}
	plain, err := s.aead.Open(nil, raw[:s.aead.NonceSize()], raw[s.aead.NonceSize():], []byte(use))
	if err != nil {
		return errSeal
	}
	var inner sealed
	if json.Unmarshal(plain, &inner) != nil || s.now().Unix() > inner.Ends || json.Unmarshal(inner.Value, into) != nil {
		return errSeal
	}
	return nil
}

// Digest is the base64url SHA-256 of a text: what stands for a secret where others see it (RFC 7636, 4.2).
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Proves says whether a text is the one that a digest was made of.
func Proves(text, digest string) bool {
	return text != "" && subtle.ConstantTimeCompare([]byte(Digest(text)), []byte(digest)) == 1
}
