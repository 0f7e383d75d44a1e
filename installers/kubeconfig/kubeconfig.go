// Package kubeconfig reads kubeconfigs that others made: hosts, members, other programs, a server that is asked. Of what a
// kubeconfig may say, kubectl believes too much: it runs programs, reads files of the machine that it runs on, and goes through
// proxies. Here the credentials and the CA count that stand in the text itself, and a text that says more is refused.
package kubeconfig

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/drover-project/drover/plans/strictyaml"
)

// MaxBytes bounds a kubeconfig. That of one cluster has about 6 KiB.
const MaxBytes = 256 << 10

// maxRSA bounds RSA keys, in bits: what a key costs grows with the third power of its length.
const maxRSA = 8192

// Config is what the current context of a kubeconfig says.
type Config struct {
	// Server is the URL of the API as it is written, and TLSName the name in its certificate where that is another than the URL's.
	Server, TLSName string
	// CA are the authorities of the API in PEM; empty when there are none.
	CA []byte
	// Certificate and Key are the client's, in PEM: both or none.
	Certificate, Key []byte
	// Token, and Username with Password, may be empty.
	Token, Username, Password string
	// Others are the names of the contexts that are not the current one.
	Others []string
}

type file struct {
	APIVersion     string    `json:"apiVersion"`
	Kind           string    `json:"kind"`
	Clusters       []cluster `json:"clusters"`
	Users          []user    `json:"users"`
	Contexts       []context `json:"contexts"`
	CurrentContext string    `json:"current-context"`
}

type cluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server  string `json:"server"`
		CA      string `json:"certificate-authority-data"`
		TLSName string `json:"tls-server-name"`
	} `json:"cluster"`
}

type user struct {
	Name string `json:"name"`
	User struct {
		Certificate string `json:"client-certificate-data"`
		Key         string `json:"client-key-data"`
		Token       string `json:"token"`
		Username    string `json:"username"`
		Password    string `json:"password"`
	} `json:"user"`
}

type context struct {
	Name    string `json:"name"`
	Context struct {
		Cluster   string `json:"cluster"`
		User      string `json:"user"`
		Namespace string `json:"namespace"`
	} `json:"context"`
}

// without are fields that change nothing, with any value. RKE1 writes an api-version.
var without = regexp.MustCompile(`^(extensions|preferences|(clusters|users|contexts)\[\d+\]\.(cluster|user|context)\.extensions|clusters\[\d+\]\.cluster\.(api-version|disable-compression))$`)

// insecure asks for nothing where it is false.
var insecure = regexp.MustCompile(`^clusters\[\d+\]\.cluster\.insecure-skip-tls-verify$`)

// refused are the fields that kubectl obeys, with why they are not obeyed here.
var refused = map[string]string{
	"exec": "it names a program to run", "auth-provider": "it names a plug-in to run",
	"certificate-authority": isFile, "client-certificate": isFile, "client-key": isFile, "tokenFile": isFile,
	"proxy-url": "it leads through another machine", "insecure-skip-tls-verify": "the API has to show a certificate",
	"as": isOther, "as-groups": isOther, "as-uid": isOther, "as-user-extra": isOther,
}

const (
	isFile  = "it names a file, and what counts has to be in the kubeconfig itself"
	isOther = "it acts as another user"
)

// Read reads a kubeconfig. The error names all that is refused, also of clusters, users and contexts that are not current, by
// field and line; it repeats no value of the text.
func Read(text []byte) (*Config, error) {
	limits := strictyaml.Limits{Bytes: MaxBytes, Depth: 20, Aliases: 10, Values: 10_000, Expanded: MaxBytes}
	document, err := strictyaml.ReadOne(strictyaml.Source{Private: true, Limits: limits}, text)
	if err != nil {
		all, _ := errors.AsType[strictyaml.Errors](err)
		return nil, describe(all)
	}
	var f file
	if errs := document.Decode(&f, strictyaml.Options{Ignore: without.MatchString, IgnoreZero: insecure.MatchString, AsWritten: true}); errs != nil {
		return nil, describe(errs)
	}
	if f.APIVersion != "" && f.APIVersion != "v1" || f.Kind != "" && f.Kind != "Config" {
		return nil, errors.New("apiVersion and kind are not those of a kubeconfig, v1 and Config")
	}
	return f.current()
}

// describe is what is wrong with a text whose names and values are not to be repeated: a key may be anything, and the path of one
// that is not known is that of known ones but for its last step.
func describe(errs strictyaml.Errors) error {
	const most = 10
	var all []string
	for _, e := range errs {
		said := strings.TrimSpace(e.Path + " " + e.Reason)
		switch e.Kind {
		case strictyaml.Unknown:
			field := e.In + "." + name(e.Key)
			said = strings.TrimPrefix(field, ".") + " is not a field that is read"
			if why := refused[e.Key]; why != "" {
				said = field + " is refused: " + why
			}
		case strictyaml.Repeated:
			said = strings.TrimPrefix(e.In+"."+name(e.Key), ".") + " stands there twice"
		case strictyaml.Limit, strictyaml.Syntax, strictyaml.Second, strictyaml.BadKey, strictyaml.Merge:
			said = e.Reason
		}
		if e.Line > 0 {
			said = fmt.Sprintf("line %d: %s", e.Line, said)
		}
		all = append(all, said)
	}
	if len(all) > most {
		all = append(all[:most], fmt.Sprintf("and %d more", len(all)-most))
	}
	return errors.New(strings.Join(all, "; "))
}

var plain = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z-]{0,39}$`) })

// name is a key that may be repeated.
func name(key string) string {
	if plain().MatchString(key) {
		return key
	}
	return "(a name that is not repeated here)"
}

// current is the cluster and the user of the current context.
func (f *file) current() (*Config, error) {
	at, err := one("contexts", f.Contexts, func(c context) bool { return c.Name == f.CurrentContext && c.Name != "" })
	if err != nil {
		return nil, err
	}
	foundCluster, err := one("clusters", f.Clusters, func(c cluster) bool { return c.Name == at.Context.Cluster })
	if err != nil {
		return nil, err
	}
	foundUser, err := one("users", f.Users, func(u user) bool { return u.Name == at.Context.User })
	if err != nil {
		return nil, err
	}
	c, u := foundCluster.Cluster, foundUser.User
	config := Config{Server: c.Server, TLSName: c.TLSName, Token: u.Token, Username: u.Username, Password: u.Password}
	for _, other := range f.Contexts {
		if other.Name != at.Name {
			config.Others = append(config.Others, other.Name)
		}
	}
	for _, data := range []struct {
		field, text string
		to          *[]byte
	}{
		{"certificate-authority-data", c.CA, &config.CA}, {"client-certificate-data", u.Certificate, &config.Certificate}, {"client-key-data", u.Key, &config.Key},
	} {
		if *data.to, err = base64.StdEncoding.DecodeString(data.text); err != nil {
			return nil, fmt.Errorf("%s is not base64", data.field)
		}
	}
	if err := config.Check(); err != nil {
		return nil, err
	}
	return &config, nil
}

// one is the only entry of a list that matches.
func one[T any](list string, all []T, match func(T) bool) (found T, err error) {
	n := 0
	for _, entry := range all {
		if match(entry) {
			found = entry
			n++
		}
	}
	if n != 1 {
		return found, fmt.Errorf("%s has %d entries of the name that current-context or its context has, where one is expected", list, n)
	}
	return found, nil
}

// Check says what of the credentials cannot be used: PEM that has no certificate or key, a key of another certificate, a key of
// a size that nothing honest has, a token that no header can carry.
func (c *Config) Check() error {
	if len(c.CA) > 0 {
		if err := certificates("certificate-authority-data", c.CA); err != nil {
			return err
		}
	}
	if len(c.Certificate) > 0 || len(c.Key) > 0 {
		if err := certificates("client-certificate-data", c.Certificate); err != nil {
			return err
		}
		// A key of an honest size has less than 10 KiB as PEM; what it has is looked at before it is used.
		if len(c.Key) > 16<<10 {
			return errors.New("client-key-data is longer than 16 KiB")
		}
		if _, err := tls.X509KeyPair(c.Certificate, c.Key); err != nil {
			return errors.New("client-key-data is not the key of client-certificate-data, in PEM")
		}
	}
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("token has characters that cannot be sent in a header")
	}
	return nil
}

// certificates says what is wrong with certificates in PEM.
func certificates(field string, text []byte) error {
	found := false
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("%s has a certificate that cannot be read", field)
		}
		if key, ok := c.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSA {
			return fmt.Errorf("%s has an RSA key of more than %d bits", field, maxRSA)
		}
		found = true
	}
	if !found {
		return fmt.Errorf("%s has no certificate in PEM", field)
	}
	return nil
}
