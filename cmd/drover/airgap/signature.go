package airgap

import (
	"bytes"
	"crypto/rand"
	"crypto/sha512"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"golang.org/x/crypto/ssh"
)

// namespace is what signatures of sites are for: ssh-keygen -Y verify -n drover-airgap.
const namespace = "drover-airgap"

// The format of `ssh-keygen -Y sign` (https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig).
const (
	signatureMagic = "SSHSIG"
	signatureHash  = "sha512"
	signatureBlock = "SSH SIGNATURE"
)

// signed is what is signed, without its magic.
type signed struct {
	Namespace, Reserved, Hash string
	Sum                       []byte
}

// envelope is what a signature file has, without its magic.
type envelope struct {
	Version                   uint32
	Key                       []byte
	Namespace, Reserved, Hash string
	Signature                 []byte
}

func message(content []byte) []byte {
	sum := sha512.Sum512(content)
	return append([]byte(signatureMagic), ssh.Marshal(signed{Namespace: namespace, Hash: signatureHash, Sum: sum[:]})...)
}

// sign signs with a private key of OpenSSH that has no passphrase.
func sign(content []byte, keyFile string) ([]byte, error) {
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return nil, fmt.Errorf("read the key to sign with: %w", err)
	}
	key, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("read the key to sign with, %s: %w; it has to be a private key of ssh-keygen without a passphrase", keyFile, err)
	}
	algorithm := key.PublicKey().Type()
	if algorithm == ssh.KeyAlgoRSA {
		algorithm = ssh.KeyAlgoRSASHA512 // SHA-1 is refused by what verifies
	}
	signer, ok := key.(ssh.AlgorithmSigner)
	if !ok {
		return nil, fmt.Errorf("sign with %s: a key of type %s cannot", keyFile, key.PublicKey().Type())
	}
	signature, err := signer.SignWithAlgorithm(rand.Reader, message(content), algorithm)
	if err != nil {
		return nil, fmt.Errorf("sign with %s: %w", keyFile, err)
	}
	blob := append([]byte(signatureMagic), ssh.Marshal(envelope{
		Version: 1, Key: key.PublicKey().Marshal(), Namespace: namespace, Hash: signatureHash, Signature: ssh.Marshal(signature),
	})...)
	return pem.EncodeToMemory(&pem.Block{Type: signatureBlock, Bytes: blob}), nil
}

// verifySignature says whether the signature is of one of the public keys in a file, one a line as ssh-keygen writes them.
func verifySignature(content, signature []byte, keysFile string) error {
	keys, err := os.ReadFile(keysFile)
	if err != nil {
		return fmt.Errorf("read the public key: %w", err)
	}
	block, _ := pem.Decode(signature)
	if block == nil || block.Type != signatureBlock || !bytes.HasPrefix(block.Bytes, []byte(signatureMagic)) {
		return errors.New("the signature is none of ssh-keygen -Y sign")
	}
	var e envelope
	if err := ssh.Unmarshal(block.Bytes[len(signatureMagic):], &e); err != nil {
		return fmt.Errorf("the signature cannot be read: %w", err)
	}
	if e.Version != 1 || e.Namespace != namespace || e.Hash != signatureHash {
		return fmt.Errorf("the signature is for %.50q with %.20q, and not for %q with %q", e.Namespace, e.Hash, namespace, signatureHash)
	}
	var s ssh.Signature
	if err := ssh.Unmarshal(e.Signature, &s); err != nil {
		return fmt.Errorf("the signature cannot be read: %w", err)
	}
	if s.Format == ssh.KeyAlgoRSA {
		return errors.New("the signature is made with SHA-1, which counts no more")
	}
	for len(keys) > 0 {
		key, _, _, rest, err := ssh.ParseAuthorizedKey(keys)
		if err != nil {
			break // nothing more that is a key
		}
		if keys = rest; bytes.Equal(key.Marshal(), e.Key) {
			if err := key.Verify(message(content), &s); err != nil {
				return fmt.Errorf("the signature does not fit: %w", err)
			}
			return nil
		}
	}
	return fmt.Errorf("the signature is of another key than those in %s", keysFile)
}
