// Certificates that an outside authority issues: a directory of them, and requests for them.

package pki

import (
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki/pemtext"
)

// maxFile bounds a file of a directory of certificates, in bytes: a chain of a dozen fits.
const maxFile = 64 << 10

// ReadDir reads <name>.pem and <name>-key.pem of a directory of certificates. Other files are not
// looked at. Its errors name the file and quote nothing of it.
func ReadDir(dir fs.FS) (Bundle, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, fmt.Errorf("read the directory of certificates: %w", err)
	}
	b := Bundle{}
	for _, e := range entries {
		name, isPEM := strings.CutSuffix(e.Name(), ".pem")
		if !isPEM || strings.HasSuffix(name, "-key") || strings.HasSuffix(name, "-csr") {
			continue
		}
		text, err := readText(dir, e.Name())
		if err != nil {
			return nil, err
		}
		chain, err := pemtext.Certificates(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		certificates := ""
		for _, c := range chain {
			certificates += pemtext.OfCertificate(c.Raw)
		}
		key, err := readKey(dir, name)
		if err != nil {
			return nil, err
		}
		common, organization := name, ""
		switch name {
		case Node:
			common, organization = "system:node", "system:nodes"
		case Admin:
			organization = "system:masters"
		}
		b[name] = entry(name, common, organization, certificates, key)
	}
	return b, nil
}

// readKey reads <name>-key.pem as PKCS#1; a file that is not there is "".
func readKey(dir fs.FS, name string) (string, error) {
	text, err := readText(dir, name+"-key.pem")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	key, err := pemtext.Key(text)
	if err != nil {
		return "", fmt.Errorf("%s-key.pem: %w", name, err)
	}
	return pemtext.OfKey(key), nil
}

func readText(dir fs.FS, name string) (string, error) {
	info, err := fs.Stat(dir, name)
	if err != nil {
		return "", fmt.Errorf("read a certificate: %w", err)
	}
	if info.Size() > maxFile {
		return "", fmt.Errorf("read %s: larger than %d bytes", name, maxFile)
	}
	b, err := fs.ReadFile(dir, name)
	if err != nil {
		return "", fmt.Errorf("read a certificate: %w", err)
	}
	return string(b), nil
}

// Custom completes what ReadDir read to the bundle of a cluster, and checks it: everything that the
// cluster needs is there, signed by its CA, with the key that belongs to it. The CA key may be missing. Without a
// request-header CA kube-ca is it; without a key for tokens, the API server's is it. Its error
// names everything that is missing.
func Custom(cfg *config.Cluster, given Bundle, o Options) (Bundle, error) {
	m := newMaker(cfg, given, Source{}, o)
	ca := given[CA]
	if ca.CertificatePEM == "" {
		return nil, fmt.Errorf("certificates of your own: %s.pem is missing", CA)
	}
	if given[RequestHeaderCA].CertificatePEM == "" {
		m.bundle[RequestHeaderCA] = entry(RequestHeaderCA, RequestHeaderCA, "", ca.CertificatePEM, "")
	}
	wanted, err := leaves(cfg)
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, l := range wanted {
		c := given[l.name]
		for _, part := range []struct{ file, text string }{{l.name + ".pem", c.CertificatePEM}, {l.name + "-key.pem", c.KeyPEM}} {
			if part.text == "" {
				faults = append(faults, fmt.Errorf("certificates of your own: %s is missing", part.file))
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	m.serviceAccount()
	if err := m.externalEtcd(); err != nil {
		return nil, err
	}
	m.prune(wanted)
	if err := m.adminKubeconfig(); err != nil {
		return nil, err
	}
	if err := Verify(m.bundle); err != nil {
		return nil, err
	}
	return m.bundle, nil
}

// Request is a certificate to be asked of an outside authority: a signing request and the key it is for.
type Request struct {
	// CSRPEM goes to the authority. KeyPEM is PKCS#1, and a secret.
	CSRPEM, KeyPEM string
}

// RequestMode is the mode of the files of requests.
const RequestMode fs.FileMode = 0o640

// Requests are those for every leaf of a config, as `rke cert generate-csr` makes them: with the
// subject, alternative names and extended key usages of the certificate. Keys and requests that were
// made before stay, unless the names have changed. Its errors name the certificate.
func Requests(cfg *config.Cluster, before map[string]Request, src Source) (map[string]Request, error) {
	wanted, err := leaves(cfg)
	if err != nil {
		return nil, err
	}
	all := map[string]Request{}
	for _, l := range wanted {
		r := before[l.name]
		if r.CSRPEM != "" && r.KeyPEM != "" && l.requestedBy(r.CSRPEM) {
			all[l.name] = r
			continue
		}
		var key *rsa.PrivateKey
		if r.KeyPEM == "" {
			key, err = src.NewKey()
		} else {
			key, err = pemtext.Key(r.KeyPEM)
		}
		if err != nil {
			return nil, fmt.Errorf("the key of %s: %w", l.name, err)
		}
		if all[l.name], err = l.request(src, key); err != nil {
			return nil, fmt.Errorf("request %s: %w", l.name, err)
		}
	}
	return all, nil
}

// ReadRequests reads <name>-csr.pem and <name>-key.pem of a directory, by name. Its errors name the file.
func ReadRequests(dir fs.FS) (map[string]Request, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, fmt.Errorf("read the directory of certificates: %w", err)
	}
	all := map[string]Request{}
	for _, e := range entries {
		name, isKey := strings.CutSuffix(e.Name(), "-key.pem")
		if !isKey {
			continue
		}
		key, err := readKey(dir, name)
		if err != nil {
			return nil, err
		}
		csr, err := readText(dir, name+"-csr.pem")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all[name] = Request{CSRPEM: csr, KeyPEM: key}
	}
	return all, nil
}

var (
	extendedKeyUsage = asn1.ObjectIdentifier{2, 5, 29, 37}
	serverAuth       = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 1}
	clientAuth       = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 2}
)

func (l leaf) request(src Source, key *rsa.PrivateKey) (Request, error) {
	usages := []asn1.ObjectIdentifier{clientAuth}
	if l.server {
		usages = append(usages, serverAuth)
	}
	value, err := asn1.Marshal(usages)
	if err != nil {
		return Request{}, err
	}
	der, err := x509.CreateCertificateRequest(src.Random, &x509.CertificateRequest{
		Subject: l.subject(), DNSNames: l.names.dns, IPAddresses: l.names.ips,
		ExtraExtensions: []pkix.Extension{{Id: extendedKeyUsage, Value: value}},
	}, key)
	if err != nil {
		return Request{}, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return Request{CSRPEM: string(text), KeyPEM: pemtext.OfKey(key)}, nil
}

// requestedBy says whether a request still asks for this leaf.
func (l leaf) requestedBy(text string) bool {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return false
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	return err == nil && l.names.same(&x509.Certificate{DNSNames: r.DNSNames, IPAddresses: r.IPAddresses}, true)
}
