// The part of a cluster's document that is about its data: snapshots of etcd, the bucket of S3 where they
// go, and what the document asks for once, such as a restore or a rotation.
//
// Wire source: rancher/rancher pkg/apis/rke.cattle.io/v1.

package clusterspec

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans/forms"
)

// ETCD are the snapshot settings.
type ETCD struct {
	// DisableSnapshots ends snapshots by schedule. Default: false
	DisableSnapshots bool `json:"disableSnapshots,omitempty"`
	// SnapshotScheduleCron is when snapshots are taken, in the clock of the host. Default: "0 */12 * * *"
	SnapshotScheduleCron string `json:"snapshotScheduleCron,omitempty"`
	// SnapshotRetention is how many snapshots of each name a host keeps. Default: 5
	SnapshotRetention int `json:"snapshotRetention,omitempty"`
	// S3 is where snapshots go beside the hosts' disks; without it, nowhere else.
	S3 *S3 `json:"s3,omitempty"`
}

// S3 is a bucket for snapshots. What is empty here counts as the credential has it.
type S3 struct {
	// Endpoint is a host or host:port, which is spoken to by TLS. Default: Amazon's Example: minio.lan:9000
	Endpoint string `json:"endpoint,omitempty"`
	// EndpointCA is PEM of the authority of the endpoint's certificate, or base64 of it as Rancher's clients write it.
	EndpointCA string `json:"endpointCA,omitempty"`
	// SkipSSLVerify takes any certificate of the endpoint. Default: false
	SkipSSLVerify bool `json:"skipSSLVerify,omitempty"`
	// Bucket is the bucket's name. Example: harbour-snapshots
	Bucket string `json:"bucket,omitempty"`
	// Region is the bucket's region. Example: eu-central-1
	Region string `json:"region,omitempty"`
	// CloudCredentialName is NAMESPACE:NAME of the Secret with the keys; without it each host takes the keys of its own role. Example:
	// fleet-default:s3-keys
	CloudCredentialName string `json:"cloudCredentialName,omitempty"`
	// Retention is how many snapshots of each name are kept, those of all hosts together. Default: the distribution's
	Retention int `json:"retention,omitempty"`
	// Folder is a prefix of all names in the bucket. Example: harbour
	Folder string `json:"folder,omitempty"`
	// BucketLookupType is auto, dns or path: where the name of the bucket stands in an address. Rancher does not have it. Default: auto
	BucketLookupType string `json:"bucketLookupType,omitempty"`
}

// Enabled says whether snapshots go to S3: any field that names a place or keys says so. Source: rancher/rancher pkg/capr, S3Enabled.
func (s *S3) Enabled() bool {
	return s != nil && (s.Bucket != "" || s.Endpoint != "" || s.Folder != "" || s.CloudCredentialName != "" || s.Region != "")
}

// Credential are the namespace and the name of the Secret with the keys; false when there is none.
func (s *S3) Credential() (namespace, name string, ok bool) {
	if !s.Enabled() {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(s.CloudCredentialName, ":")
	return namespace, name, ok && namespace != "" && name != ""
}

// Place are the settings that say where keys are used: who else gets what is signed with them, and where files are.
func (s S3) Place() S3 {
	return S3{Endpoint: s.Endpoint, EndpointCA: s.EndpointCA, SkipSSLVerify: s.SkipSSLVerify, Bucket: s.Bucket, Folder: s.Folder, CloudCredentialName: s.CloudCredentialName}
}

// CleanPEM is a certificate's text as PEM, of PEM or of base64 of it.
func CleanPEM(text string) string {
	if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
		return string(decoded)
	}
	return text
}

// ETCDSnapshotCreate asks for a snapshot on every member of etcd.
type ETCDSnapshotCreate struct {
	// Generation begins a snapshot when it changes.
	Generation int64 `json:"generation,omitempty"`
}

// ETCDSnapshotRestore asks for a restore of the snapshot with that name. RestoreRKEConfig is its mode: none or empty,
// kubernetesVersion, or all.
type ETCDSnapshotRestore struct {
	// Name is the snapshot's, as `drover snapshots ls` shows it.
	Name string `json:"name,omitempty"`
	// Generation begins the restore when it changes.
	Generation int64 `json:"generation,omitempty"`
	// RestoreRKEConfig is what else goes back: none, kubernetesVersion or all settings. Default: none
	RestoreRKEConfig string `json:"restoreRKEConfig,omitempty"`
}

// RotateCertificates asks for new certificates of the services, of all without any.
type RotateCertificates struct {
	// Generation begins the rotation when it changes.
	Generation int64 `json:"generation,omitempty"`
	// Services are those whose certificates are renewed. Default: all Example: [controller-manager, scheduler]
	Services []string `json:"services,omitempty"`
}

// RotateEncryptionKeys asks for a new key for Secrets in etcd.
type RotateEncryptionKeys struct {
	// Generation begins the rotation when it changes.
	Generation int64 `json:"generation,omitempty"`
}

// secretSettings are the first versions of minor lines that take the settings of S3 from a Secret in the cluster; every
// later line does. Source: docs.k3s.io, "S3 Configuration Secret Support".
var secretSettings = []string{"v1.28.13+k3s1", "v1.29.8+k3s1", "v1.30.4+k3s1", "v1.31.0+k3s1"}

// takesSecret says whether a version takes the settings of S3 from a Secret.
func takesSecret(version string) bool {
	if i := slices.IndexFunc(secretSettings, func(first string) bool { return versions.Minor(first) == versions.Minor(version) }); i >= 0 {
		return versions.Compare(version, secretSettings[i]) >= 0
	}
	return versions.Compare(version, secretSettings[len(secretSettings)-1]) > 0
}

var (
	bucketPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`) })
	regionPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`) })
	folderPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._@+/-]{1,512}$`) })
)

// Faults are what is wrong with the settings of a bucket, as the name of the field and a sentence for each. Empty fields are
// not; those that a credential fills in are looked at when it is read.
func (s S3) Faults() map[string]string {
	faults := map[string]string{}
	if s.Endpoint != "" && !forms.Host(s.Endpoint) {
		faults["endpoint"] = fmt.Sprintf("%.100q is not a host or host:port; leave out https:// and what comes after the port", s.Endpoint)
	}
	if s.Bucket != "" && !bucketPattern().MatchString(s.Bucket) {
		faults["bucket"] = fmt.Sprintf("%.100q is not the name of a bucket: it takes 3 to 63 small letters, digits, dots and dashes", s.Bucket)
	}
	if s.Region != "" && !regionPattern().MatchString(s.Region) {
		faults["region"] = fmt.Sprintf("%.100q is not the name of a region", s.Region)
	}
	if s.Folder != "" && (!folderPattern().MatchString(s.Folder) || slices.ContainsFunc(strings.Split(strings.Trim(s.Folder, "/"), "/"), func(part string) bool {
		return part == "" || part == "." || part == ".."
	})) {
		faults["folder"] = fmt.Sprintf("%.100q is not a folder: it takes names of letters, digits and ._@+- with / between them", s.Folder)
	}
	if strings.HasSuffix(s.EndpointCA, ".crt") {
		faults["endpointCA"] = "is the path of a file on hosts, which the server cannot read; give the certificate itself, in PEM"
	} else if s.EndpointCA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(CleanPEM(s.EndpointCA))) {
		faults["endpointCA"] = "is not a certificate in PEM, nor base64 of one"
	}
	if block, _ := pem.Decode([]byte(CleanPEM(s.EndpointCA))); block != nil && strings.Contains(block.Type, "PRIVATE KEY") {
		faults["endpointCA"] = "has a private key where only certificates belong"
	}
	if s.Retention < 0 {
		faults["retention"] = fmt.Sprintf("%d is less than 0", s.Retention)
	}
	if !slices.Contains([]string{"", "auto", "dns", "path"}, s.BucketLookupType) {
		faults["bucketLookupType"] = fmt.Sprintf("%.40q is none of auto, dns, path", s.BucketLookupType)
	}
	return faults
}

// A Fault is something wrong with a field: its path below spec.rkeConfig, and a sentence.
type Fault struct{ At, Reason string }

// credentialPattern is the form of a reference to a Secret.
var credentialPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?:[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
})

// Faults are what is wrong with the snapshot settings of a cluster of that version.
func (e *ETCD) Faults(version string) (all []Fault) {
	fault := func(field, format string, args ...any) {
		all = append(all, Fault{"etcd." + field, fmt.Sprintf(format, args...)})
	}
	if e == nil {
		return nil
	}
	if e.SnapshotRetention < 0 {
		fault("snapshotRetention", "%d is less than 0", e.SnapshotRetention)
	}
	if e.SnapshotScheduleCron != "" && !schedule(e.SnapshotScheduleCron) {
		fault("snapshotScheduleCron", "%.100q is not a schedule that %s reads: five fields as in \"0 */6 * * *\" (minute, hour, day, month, day of the week from 0 to 6), @every 6h or @daily", e.SnapshotScheduleCron, versions.RuntimeOf(version))
	}
	if !e.S3.Enabled() {
		return all
	}
	faults := e.S3.Faults()
	for _, field := range slices.Sorted(maps.Keys(faults)) {
		fault("s3."+field, "%s", faults[field])
	}
	switch name := e.S3.CloudCredentialName; {
	case name != "" && !credentialPattern().MatchString(name):
		fault("s3.cloudCredentialName", "%.300q is not of the form <namespace>:<name> of a Secret", name)
	case name == "" && e.S3.Bucket == "":
		fault("s3.bucket", "is missing, and there is no cloudCredentialName whose Secret could have it")
	}
	if versions.WellFormed(version) && !takesSecret(version) {
		fault("s3", "needs %s or a later version of its line: before, the keys would stand in a file of each host", strings.Join(secretSettings, ", "))
	}
	return all
}

// maxServices bounds the list of services, and maxSnapshotName the name of a snapshot, in characters.
const (
	maxServices     = 32
	maxSnapshotName = 1000
)

// Requests are what a document asks for once for each value.
type Requests struct {
	// ETCDSnapshotCreate takes a snapshot.
	ETCDSnapshotCreate *ETCDSnapshotCreate `json:"etcdSnapshotCreate,omitempty"`
	// ETCDSnapshotRestore restores a snapshot.
	ETCDSnapshotRestore *ETCDSnapshotRestore `json:"etcdSnapshotRestore,omitempty"`
	// RotateCertificates renews certificates.
	RotateCertificates *RotateCertificates `json:"rotateCertificates,omitempty"`
	// RotateEncryptionKeys makes a new key for Secrets in etcd.
	RotateEncryptionKeys *RotateEncryptionKeys `json:"rotateEncryptionKeys,omitempty"`
}

// Faults are what is wrong with them.
func (r Requests) Faults() (all []Fault) {
	fault := func(field, format string, args ...any) {
		all = append(all, Fault{field, fmt.Sprintf(format, args...)})
	}
	generation := func(field string, value int64) {
		if value < 0 {
			fault(field+".generation", "%d is less than 0", value)
		}
	}
	if one := r.ETCDSnapshotCreate; one != nil {
		generation("etcdSnapshotCreate", one.Generation)
	}
	if one := r.RotateEncryptionKeys; one != nil {
		generation("rotateEncryptionKeys", one.Generation)
	}
	if one := r.RotateCertificates; one != nil {
		generation("rotateCertificates", one.Generation)
		if len(one.Services) > maxServices {
			fault("rotateCertificates.services", "has %d entries, and takes %d at most", len(one.Services), maxServices)
		}
	}
	if one := r.ETCDSnapshotRestore; one != nil {
		generation("etcdSnapshotRestore", one.Generation)
		if len(one.Name) > maxSnapshotName {
			fault("etcdSnapshotRestore.name", "has %d characters, and takes %d at most", len(one.Name), maxSnapshotName)
		}
		if !slices.Contains([]string{"", "none", "kubernetesVersion", "all"}, one.RestoreRKEConfig) {
			fault("etcdSnapshotRestore.restoreRKEConfig", "%.40q is none of none, kubernetesVersion, all", one.RestoreRKEConfig)
		}
	}
	return all
}
