// Package snapshotbucket is where snapshots of k3s and RKE2 go beside the disks of their hosts: a bucket of S3. Of a cluster's settings
// and of the Secret that they name it makes what the distribution reads, what the server opens, and a link by which a
// host fetches one object.
//
// Keys of a bucket come to hosts by one way: a Secret in the cluster's own API, which the distribution reads
// (etcd-s3-config-secret). They are in no plan, so that they are not in the store's plans, not on disks of hosts, not in
// what agents print. Who restores has no API; the host gets a link then, which opens one object for some hours.
//
// Sources: k3s-io/k3s pkg/etcd/s3/config_secret.go; rancher/rancher pkg/capr/planner, S3Args.
package snapshotbucket

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

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
