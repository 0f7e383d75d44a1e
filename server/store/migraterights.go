package store

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/randomid"
)

// shared is what the step reads of a Secret or ConfigMap.
type shared struct {
	Namespace   string            `json:"namespace"`
	Annotations map[string]string `json:"annotations"`
	UID         string            `json:"uid"`
}

// names are those of the clusters in its annotations.
func (o shared) names() []string {
	var all []string
	for name := range strings.SplitSeq(o.Annotations["rke.cattle.io/object-authorized-for-clusters"]+","+o.Annotations["v2prov-secret-authorized-for-cluster"], ",") {
		if name = strings.TrimSpace(name); name != "" {
			all = append(all, name)
		}
	}
	return all
}

// bucket are the settings of a bucket.
type bucket struct {
	Endpoint            string `json:"endpoint,omitempty"`
	EndpointCA          string `json:"endpointCA,omitempty"`
	SkipSSLVerify       bool   `json:"skipSSLVerify,omitempty"`
	Bucket              string `json:"bucket,omitempty"`
	CloudCredentialName string `json:"cloudCredentialName,omitempty"`
	Folder              string `json:"folder,omitempty"`
}

// granted is the right of a cluster to use an object.
type granted struct {
	UID    string  `json:"uid"`
	Bucket *bucket `json:"bucket,omitempty"`
}

// referring is what the step reads of a cluster.
type referring struct {
	ID        string          `json:"id"`
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	Granted   json.RawMessage `json:"granted"`
	Spec      struct {
		RKEConfig struct {
			MachineGlobalConfig   map[string]any `json:"machineGlobalConfig"`
			MachineSelectorConfig []struct {
				Config map[string]any `json:"config"`
			} `json:"machineSelectorConfig"`
			MachineSelectorFiles []struct {
				FileSources []map[string]struct {
					Name string `json:"name"`
				} `json:"fileSources"`
			} `json:"machineSelectorFiles"`
			Registries struct {
				Configs map[string]struct {
					AuthConfigSecretName string `json:"authConfigSecretName"`
					TLSSecretName        string `json:"tlsSecretName"`
				} `json:"configs"`
			} `json:"registries"`
			ETCD struct {
				S3 bucket `json:"s3"`
			} `json:"etcd"`
		} `json:"rkeConfig"`
	} `json:"spec"`
}

// inUse are the rights of a cluster to the objects that servers of the schema before gave it: any of its namespace for registries and
// buckets, others by the cluster's name in an annotation.
func (c referring) inUse(objects map[string]shared) map[string]granted {
	all := map[string]granted{}
	use := func(kind, namespace, name string, free bool) {
		key := kind + "/" + namespace + "/" + name
		if o, ok := objects[key]; ok && (free || slices.Contains(o.names(), c.Name)) {
			all[key] = granted{UID: o.UID}
		}
	}
	rke := c.Spec.RKEConfig
	for _, files := range rke.MachineSelectorFiles {
		for _, source := range files.FileSources {
			use("Secret", c.Namespace, source["secret"].Name, false)
			use("ConfigMap", c.Namespace, source["configMap"].Name, false)
		}
	}
	for _, registry := range rke.Registries.Configs {
		use("Secret", c.Namespace, registry.AuthConfigSecretName, true)
		use("Secret", c.Namespace, registry.TLSSecretName, true)
	}
	configs := []map[string]any{rke.MachineGlobalConfig}
	for _, one := range rke.MachineSelectorConfig {
		configs = append(configs, one.Config)
	}
	for _, config := range configs {
		text, _ := config["cloud-provider-config"].(string)
		if reference, ok := strings.CutPrefix(text, "secret://"); ok {
			namespace, name, _ := strings.Cut(reference, ":")
			use("Secret", namespace, name, false)
		}
	}
	if namespace, name, ok := strings.Cut(rke.ETCD.S3.CloudCredentialName, ":"); ok {
		use("Secret", namespace, name, namespace == c.Namespace)
		key := "Secret/" + namespace + "/" + name
		if g, ok := all[key]; ok {
			s3 := rke.ETCD.S3
			g.Bucket = &s3
			all[key] = g
		}
	}
	return all
}

// references marks the Secrets and ConfigMaps that clusters use, and gives each of them a UID: servers of the schema before went by
// names alone.
func references(documents []migratedDocument) (changes []migratedDocument, err error) {
	clusters, ids := map[string]referring{}, map[string]string{}
	for _, d := range documents {
		if d.Collection != "clusters" {
			continue
		}
		var c referring
		if err := json.Unmarshal(d.Value, &c); err != nil {
			return nil, fmt.Errorf("read cluster %s: %w", d.Key, err)
		}
		clusters[d.Key], ids[c.Name] = c, c.ID
	}
	objects := map[string]shared{}
	for _, d := range documents {
		if d.Collection != "objects" {
			continue
		}
		o, changed, err := marked(&d, ids)
		if err != nil {
			return nil, err
		}
		if objects[d.Key] = o; changed {
			changes = append(changes, d)
		}
	}
	for _, d := range documents { // after the objects, whose UIDs have to be there
		c, is := clusters[d.Key]
		if d.Collection != "clusters" || !is || c.Granted != nil {
			continue
		}
		if all := c.inUse(objects); len(all) > 0 {
			if err := set(&d, map[string]any{"granted": all}); err != nil {
				return nil, err
			}
			changes = append(changes, d)
		}
	}
	return changes, nil
}

// marked gives an object that has none a UID, and the IDs of the clusters that its annotations name.
func marked(d *migratedDocument, ids map[string]string) (o shared, changed bool, err error) {
	if err := json.Unmarshal(d.Value, &o); err != nil {
		return o, false, fmt.Errorf("read %s: %w", d.Key, err)
	}
	if o.UID != "" {
		return o, false, nil
	}
	o.UID = randomid.UID()
	fields := map[string]any{"uid": o.UID}
	if names := o.names(); len(names) > 0 {
		bound := map[string]string{}
		for _, name := range names {
			bound[name] = ids[name]
		}
		fields["clusters"] = bound
	}
	return o, true, set(d, fields)
}

// set writes fields of a document, and leaves the others as they are.
func set(d *migratedDocument, fields map[string]any) error {
	all := map[string]json.RawMessage{}
	err := json.Unmarshal(d.Value, &all)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		text, wrong := json.Marshal(fields[name])
		all[name], err = text, errors.Join(err, wrong)
	}
	value, wrong := json.Marshal(all)
	if err = errors.Join(err, wrong); err != nil {
		return fmt.Errorf("write %s/%s: %w", d.Collection, d.Key, err)
	}
	d.Value = value
	return nil
}

// builtinProjects writes the IDs of a cluster's projects Default and System, which servers of schema 2 made from the cluster's ID, into
// the cluster: bindings, secrets and the marks of namespaces name them.
func builtinProjects(documents []migratedDocument) (changes []migratedDocument, err error) {
	for _, d := range documents {
		if d.Collection != "clusters" {
			continue
		}
		var known struct {
			ID       string          `json:"id"`
			Projects json.RawMessage `json:"projects"`
		}
		cluster := map[string]json.RawMessage{}
		if err := errors.Join(json.Unmarshal(d.Value, &known), json.Unmarshal(d.Value, &cluster)); err != nil {
			return nil, fmt.Errorf("read cluster %s: %w", d.Key, err)
		}
		if known.Projects != nil {
			continue
		}
		first, second := hashedProjects(known.ID)
		if cluster["projects"], err = json.Marshal(map[string]string{"default": first, "system": second}); err != nil {
			return nil, err
		}
		if d.Value, err = json.Marshal(cluster); err != nil {
			return nil, err
		}
		changes = append(changes, d)
	}
	return changes, nil
}

// hashedProjects are the IDs as they were made: of the two the one that sorts first is Default.
func hashedProjects(clusterID string) (defaultID, systemID string) {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	for salt := byte(0); ; salt++ {
		sum := sha256.Sum256(append([]byte("projects of "+clusterID), salt))
		ids := [2]string{}
		for i := range ids {
			short := make([]byte, 5)
			for j := range short {
				short[j] = alphabet[int(sum[5*i+j])%len(alphabet)]
			}
			ids[i] = clusterID + ":p-" + string(short)
		}
		if ids[0] != ids[1] {
			return min(ids[0], ids[1]), max(ids[0], ids[1])
		}
	}
}
