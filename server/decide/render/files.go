// Files whose text comes from Secrets and ConfigMaps.

package render

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
)

// named is an object as errors name it: secret fleet-default/mirror.
func named(p objects.Object) string {
	return strings.ToLower(p.Kind) + " " + p.Namespace + "/" + p.Name
}

// object is the Secret or ConfigMap of that key.
func object(in Input, key string) (objects.Object, error) {
	p, ok := in.Objects[key]
	if !ok {
		kind, name, _ := strings.Cut(key, "/")
		return p, fmt.Errorf("there is no %s %s that cluster %s may use; apply it and then the cluster again, or name the cluster's ID %s in its annotation %s",
			strings.ToLower(kind), name, in.Cluster.Key(), in.Cluster.ID, objects.AuthorizedObject)
	}
	return p, nil
}

// selectorFiles are the files for machines with the labels of this one. Where several have one path, the last is meant.
func (r render) selectorFiles() ([]plans.File, error) {
	var files []plans.File
	for i, list := range r.rke.MachineSelectorFiles {
		if !list.MachineLabelSelector.Matches(r.Machine.Labels) {
			continue
		}
		for _, source := range list.FileSources {
			more, err := r.source(source)
			if err != nil {
				return nil, fmt.Errorf("machineSelectorFiles[%d]: %w", i, err)
			}
			for _, f := range more {
				files = slices.DeleteFunc(files, func(before plans.File) bool { return before.Path == f.Path })
				files = append(files, f)
			}
		}
	}
	return files, nil
}

// source are the files of one Secret or ConfigMap.
func (r render) source(source clusterspec.FileSource) ([]plans.File, error) {
	o, _ := source.Object()
	if o == nil {
		return nil, nil
	}
	p, err := object(r.Input, source.Key(r.Cluster.Namespace))
	if err != nil {
		return nil, err
	}
	var files []plans.File
	for _, item := range o.Items {
		value, ok := p.Data[item.Key]
		if !ok {
			return nil, fmt.Errorf("%s has no key %s, which is to become %s", named(p), item.Key, item.Path)
		}
		if sum := sha256.Sum256(value); item.Hash != "" && base64.StdEncoding.EncodeToString(sum[:]) != item.Hash {
			return nil, fmt.Errorf("key %s of %s does not have the hash that is asked for of %s", item.Key, named(p), item.Path)
		}
		files = append(files, plans.File{Path: item.Path, Content: plans.EncodeContent(value), Permissions: cmp.Or(item.Permissions, o.DefaultPermissions), Dynamic: item.Dynamic})
	}
	return files, nil
}

// settingText is what a setting that holds a text means by it: the text, or the credential of a Secret.
func (r render) settingText(key, text string) ([]byte, error) {
	if key != clusterspec.CloudConfig || !strings.HasPrefix(text, clusterspec.SecretScheme) {
		return []byte(text), nil
	}
	namespace, name, ok := clusterspec.CloudConfigSecret(text)
	if !ok {
		return nil, fmt.Errorf("%.300q is not of the form %s<namespace>:<name>", text, clusterspec.SecretScheme)
	}
	p, err := object(r.Input, objects.KeyOf(objects.Secret, namespace, name))
	if err != nil {
		return nil, err
	}
	value, ok := p.Data["credential"]
	if !ok {
		return nil, fmt.Errorf("%s has no key credential", named(p))
	}
	return value, nil
}

// distinct refuses a file of the owner at the place of one of drover's: the last of two would win on the host, whichever
// is meant.
func distinct(cluster string, files []plans.File) error {
	seen := map[string]bool{}
	for _, f := range files {
		if seen[f.Path] {
			return fmt.Errorf("%s of cluster %s is a file that drover writes; take it out of machineSelectorFiles", f.Path, cluster)
		}
		seen[f.Path] = true
	}
	return nil
}
