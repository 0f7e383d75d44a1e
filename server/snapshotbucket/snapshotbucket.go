// Package snapshotbucket is where snapshots of k3s and RKE2 go beside the disks of their hosts: a bucket of S3. Of a cluster's settings
// and of the Secret that they name it makes what the distribution reads, what the server opens, and a link by which a
// host fetches one object.
//
// Keys of a bucket come to hosts by one way: a Secret in the cluster's own API, which the distribution reads
// (etcd-s3-config-secret). They are in no plan, so that they are not in the store's plans, not on disks of hosts, not in
// what agents print. Who restores has no API; the host gets a link then, which opens one object for some hours.
//
// Sources: k3s-io/k3s pkg/etcd/s3/config_secret.go; rancher/rancher pkg/capr/planner, S3Args; of links Amazon S3 API reference, "Authenticating
// Requests: Using Query Parameters (AWS Signature Version 4)".
package snapshotbucket

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

const (
	// SecretName is that of the Secret in namespace SecretNamespace of a cluster that has the settings of its bucket.
	SecretName      = "drover-etcd-s3"
	SecretNamespace = "kube-system"
	// Amazon is the endpoint of who names none, and usualRegion its region.
	Amazon      = "s3.amazonaws.com"
	usualRegion = "us-east-1"
)

// Place is a bucket with the way to it. Printed, it has no keys.
type Place struct {
	// S3 are the settings, completed by the credential; Endpoint and Region are set, EndpointCA is PEM.
	clusterspec.S3
	// Own says that the folder is the cluster's alone, by its ID.
	Own bool
	// AccessKey and SecretKey are both set, or neither: then each host takes those of its own role.
	AccessKey, SecretKey string
}

// String is the place, for sentences.
func (p Place) String() string {
	return fmt.Sprintf("bucket %s at %s", strings.TrimSuffix(p.Bucket+"/"+p.Folder, "/"), p.Endpoint)
}

// GoString is String: %#v has no keys either.
func (p Place) GoString() string { return p.String() }

// Format has every verb print String: the struct that is embedded has no keys, and this one does.
func (p Place) Format(f fmt.State, _ rune) { fmt.Fprint(f, p.String()) }

// Of is the place of a cluster's snapshots; on is false for a cluster whose snapshots stay on its hosts. The objects, by their keys, are
// those that the cluster may use (package references). Keys are used at the place that they were given for: the one that a person chose who
// may read them, or else that of the credential, in a folder that has the cluster's ID. The
// error says what is wrong with the settings or the Secret, and repeats none of its values.
func Of(c records.Cluster, usable map[string]objects.Object) (p Place, on bool, err error) {
	if c.Spec.RKEConfig == nil || c.Spec.RKEConfig.ETCD == nil || !c.Spec.RKEConfig.ETCD.S3.Enabled() {
		return Place{}, false, nil
	}
	p.S3 = *c.Spec.RKEConfig.ETCD.S3
	if namespace, name, ok := p.Credential(); ok {
		if err := p.complete(c, namespace, name, usable); err != nil {
			return Place{}, true, fmt.Errorf("the bucket of cluster %s: %w", c.Name, err)
		}
	}
	p.Endpoint, p.Region = cmp.Or(p.Endpoint, Amazon), cmp.Or(p.Region, usualRegion)
	p.EndpointCA, p.Folder = clusterspec.CleanPEM(p.EndpointCA), strings.Trim(p.Folder, "/")
	if p.Bucket == "" {
		return Place{}, true, fmt.Errorf("the bucket of cluster %s has no name, neither in etcd.s3.bucket nor as defaultBucket of its credential", c.Name)
	}
	return p, true, nil
}

// complete adds what the credential has. Its keys are named by what comes after their last hyphen, s3credentialConfig-accessKey.
func (p *Place) complete(c records.Cluster, namespace, name string, usable map[string]objects.Object) error {
	secret, ok := usable[objects.KeyOf(objects.Secret, namespace, name)]
	if !ok {
		return fmt.Errorf("there is no secret %s/%s that cluster %s may use, which cloudCredentialName names; apply it and then the cluster again, or name the cluster's ID in its annotation %s", namespace, name, c.Name, objects.AuthorizedObject)
	}
	values := map[string]string{}
	for key, value := range secret.Data {
		values[key[strings.LastIndex(key, "-")+1:]] = strings.TrimSpace(string(value))
	}
	p.AccessKey, p.SecretKey = values["accessKey"], values["secretKey"]
	if p.AccessKey == "" || p.SecretKey == "" {
		return fmt.Errorf("secret %s/%s lacks accessKey or secretKey", namespace, name)
	}
	if g := c.Granted[secret.Key()]; g.UID == "" || g.UID != secret.UID || g.Bucket == nil || *g.Bucket != p.S3.Place() {
		if err := p.confine(c, namespace+"/"+name, values); err != nil {
			return err
		}
	}
	p.Endpoint, p.EndpointCA = cmp.Or(p.Endpoint, values["defaultEndpoint"]), cmp.Or(p.EndpointCA, values["defaultEndpointCA"])
	p.Bucket, p.Region, p.Folder = cmp.Or(p.Bucket, values["defaultBucket"]), cmp.Or(p.Region, values["defaultRegion"]), cmp.Or(p.Folder, values["defaultFolder"])
	if text := values["defaultSkipSSLVerify"]; text != "" {
		skip, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("defaultSkipSSLVerify of secret %s/%s is neither true nor false", namespace, name)
		}
		p.SkipSSLVerify = p.SkipSSLVerify || skip
	}
	faults := p.Faults()
	for _, field := range []string{"endpoint", "bucket", "region", "folder", "endpointCA"} {
		if _, bad := faults[field]; bad { // its sentence may repeat a value
			return fmt.Errorf("secret %s/%s: its value for %s is not of the form that etcd.s3.%s has", namespace, name, field, field)
		}
	}
	return nil
}

// confine holds keys that the person who applied the document may not read to the place of their credential.
func (p *Place) confine(c records.Cluster, secret string, values map[string]string) error {
	folder := strings.Trim(values["defaultFolder"], "/")
	own := strings.TrimPrefix(folder+"/"+c.ID, "/")
	for _, one := range []struct {
		field, is string
		allowed   []string
	}{
		{"endpoint", p.Endpoint, []string{cmp.Or(values["defaultEndpoint"], Amazon)}},
		{"endpointCA", clusterspec.CleanPEM(p.EndpointCA), []string{clusterspec.CleanPEM(values["defaultEndpointCA"])}},
		{"bucket", p.Bucket, []string{values["defaultBucket"]}},
		{"folder", strings.Trim(p.Folder, "/"), []string{folder, own}},
	} {
		if one.is != "" && !slices.Contains(one.allowed, one.is) {
			return fmt.Errorf("etcd.s3.%s is not that of secret %s, whose keys are used at its own place alone: leave it out, or have a person who may read the secret apply the cluster", one.field, secret)
		}
	}
	if skip, _ := strconv.ParseBool(values["defaultSkipSSLVerify"]); p.SkipSSLVerify && !skip {
		return fmt.Errorf("etcd.s3.skipSSLVerify is not that of secret %s: leave it out, or have a person who may read the secret apply the cluster", secret)
	}
	p.Endpoint, p.Folder, p.Own = cmp.Or(values["defaultEndpoint"], Amazon), own, true
	return nil
}

// Data are the values of the Secret that the distribution reads.
func (p Place) Data() map[string][]byte {
	data := map[string][]byte{}
	for key, value := range map[string]string{
		"endpoint": p.Endpoint, "endpoint-ca": p.EndpointCA, "bucket": p.Bucket, "region": p.Region, "folder": p.Folder, "access-key": p.AccessKey, "secret-key": p.SecretKey,
	} {
		if value != "" {
			data["etcd-s3-"+key] = []byte(value)
		}
	}
	if p.SkipSSLVerify {
		data["etcd-s3-skip-ssl-verify"] = []byte("true")
	}
	if p.Retention > 0 {
		data["etcd-s3-retention"] = []byte(strconv.Itoa(p.Retention))
	}
	if p.BucketLookupType != "" && p.BucketLookupType != "auto" {
		data["etcd-s3-bucket-lookup-type"] = []byte(p.BucketLookupType)
	}
	return data
}

// byName says whether the name of the bucket stands in the host's name. Of those that say nothing Amazon, Google and Aliyun
// have it there, except where a dot in it would not fit their certificates.
func (p Place) byName() bool {
	switch p.BucketLookupType {
	case "dns":
		return true
	case "path":
		return false
	}
	host := p.Endpoint
	if name, _, err := net.SplitHostPort(p.Endpoint); err == nil {
		host = name
	}
	return !strings.Contains(p.Bucket, ".") && slices.ContainsFunc([]string{".amazonaws.com", ".googleapis.com", ".aliyuncs.com"}, func(suffix string) bool {
		return strings.HasSuffix("."+host, suffix)
	})
}

// LinkLimit is how long a link opens its object: a fetch begins within minutes, unless its host is away.
const LinkLimit = 6 * time.Hour

// Link is a URL that reads an object of the folder from now on for LinkLimit. It is a secret for as long. The error says what is missing or wrong.
func (p Place) Link(name string, now time.Time) (string, error) {
	if p.AccessKey == "" {
		return "", fmt.Errorf("%s: the server has no keys of it to read %s with; give the cluster a cloudCredentialName, or copy the file to a host and restore it by its path", p, name)
	}
	if name != path.Base(name) || name == "." || name == ".." || name == "/" { // which would lead out of the folder
		return "", fmt.Errorf("%s: %.80q is not the name of a snapshot", p, name)
	}
	host, at := strings.TrimSuffix(p.Endpoint, ":443"), "/"+path.Join(p.Folder, name) // clients leave out the usual port
	if host == Amazon && p.Region != usualRegion {
		host = "s3." + p.Region + ".amazonaws.com" // the other name leads there by a redirection, which a signature does not survive
	}
	if p.byName() {
		host = p.Bucket + "." + host
	} else {
		at = "/" + p.Bucket + at
	}
	at = escaped(at, true)
	stamp := now.UTC().Format("20060102T150405Z")
	scope := strings.Join([]string{stamp[:8], p.Region, "s3", "aws4_request"}, "/")
	// In the order of their names, as they are signed.
	query := "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" + escaped(p.AccessKey+"/"+scope, false) + "&X-Amz-Date=" + stamp +
		"&X-Amz-Expires=" + strconv.Itoa(int(LinkLimit.Seconds())) + "&X-Amz-SignedHeaders=host"
	request := sha256.Sum256([]byte(strings.Join([]string{"GET", at, query, "host:" + host, "", "host", "UNSIGNED-PAYLOAD"}, "\n")))
	key := []byte("AWS4" + p.SecretKey)
	for _, part := range []string{stamp[:8], p.Region, "s3", "aws4_request"} {
		key = signed(key, part)
	}
	signature := signed(key, strings.Join([]string{"AWS4-HMAC-SHA256", stamp, scope, hex.EncodeToString(request[:])}, "\n"))
	return "https://" + host + at + "?" + query + "&X-Amz-Signature=" + hex.EncodeToString(signature), nil
}

func signed(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// escaped is a text as it is signed: all but letters, digits and -._~ by their bytes, and slashes of a path as they are.
func escaped(text string, slashes bool) string {
	text = strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
	if slashes {
		text = strings.ReplaceAll(text, "%2F", "/")
	}
	return text
}
