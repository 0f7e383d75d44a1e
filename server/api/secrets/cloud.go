// Keys of buckets as cloud credentials of /v3: Secrets of the namespace of credentials, whose values other than the keys are shown.

package secrets

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/randomid"
)

const (
	// bucketConfig is the field with the keys of a bucket, and what stands in front of each in the Secret.
	bucketConfig = "s3credentialConfig"
	// Annotations with what people call a credential.
	nameAnnotation        = "field.cattle.io/name"
	descriptionAnnotation = "field.cattle.io/description"
)

// bucketFields are the fields of a credential for a bucket, with whether they are shown.
//
// Source: rancher/rancher pkg/data/management (s3credentialconfig).
var bucketFields = map[string]bool{
	"accessKey": true, "secretKey": false, "defaultBucket": true, "defaultEndpoint": true, "defaultEndpointCA": true,
	"defaultFolder": true, "defaultRegion": true, "defaultSkipSSLVerify": true,
}

// Kind is the type cloudCredential.
func (a *API) Kind() management.Kind {
	return management.Kind{
		Schema: norman.Schema{ID: "cloudCredential", Plural: "cloudCredentials", Fields: norman.Fields(map[string]norman.Field{
			"name": {Type: "string", Create: true, Update: true}, "description": {Type: "string", Create: true, Update: true},
			bucketConfig: {Type: bucketConfig, Create: true, Update: true, Nullable: true},
		})},
		Owner: func(o norman.Object) string { owner, _ := o.Fields["creatorId"].(string); return owner },
		List: func(*route.Call) (all []norman.Object) {
			for _, d := range a.State.Objects.ListIn(objects.KeyOf(objects.Secret, objects.CredentialsNamespace, "")) {
				if opensBucket(d.Value) {
					all = append(all, credential(d.Value))
				}
			}
			return all
		},
		Get: func(_ *route.Call, id string) (norman.Object, bool) {
			d, ok := a.credential(id)
			return credential(d.Value), ok
		},
		Changed: func(*route.Call, subscribe.Change) (string, *norman.Object) { return "", nil },
	}
}

func opensBucket(o objects.Object) bool {
	for key := range o.Data {
		if strings.HasPrefix(key, bucketConfig+"-") {
			return true
		}
	}
	return false
}

// credential is the one of an id, "cattle-global-data:<name>".
func (a *API) credential(id string) (clusters.StoredObject, bool) {
	name, ok := strings.CutPrefix(id, objects.CredentialsNamespace+":")
	if !ok {
		return clusters.StoredObject{}, false
	}
	d, ok := a.State.Objects.Get(objects.KeyOf(objects.Secret, objects.CredentialsNamespace, name))
	return d, ok && opensBucket(d.Value)
}

func credential(o objects.Object) norman.Object {
	config := map[string]any{}
	for field, shown := range bucketFields {
		if value, ok := o.Data[bucketConfig+"-"+field]; ok && shown {
			config[field] = string(value)
		}
	}
	annotations := maps.Clone(o.Annotations)
	maps.DeleteFunc(annotations, func(key, _ string) bool { return key == nameAnnotation || key == descriptionAnnotation })
	return norman.Object{ID: objects.CredentialsNamespace + ":" + o.Name, Fields: map[string]any{
		"name": o.Annotations[nameAnnotation], "description": o.Annotations[descriptionAnnotation], bucketConfig: config,
		"created": nil, "creatorId": norman.Reference(o.CreatorID), "uuid": o.UID, "labels": norman.Map(o.Labels), "annotations": norman.Map(annotations),
	}}
}

// CreateCredential is POST of the type.
func (a *API) CreateCredential(c *management.Request, in norman.Input) (route.Answer, error) {
	if !in.Has(bucketConfig) {
		return route.Answer{}, norman.Invalid(norman.MissingRequired, bucketConfig, "is needed: credentials are kept for buckets alone, as hosts are not made here")
	}
	o := objects.Object{Kind: objects.Secret, Metadata: objects.Metadata{Name: "cc-" + randomid.ID(5), Namespace: objects.CredentialsNamespace}, Type: "Opaque", Data: map[string][]byte{}}
	return a.keep(c, in, o, clusters.SecretAt{New: true}, http.StatusCreated)
}

// UpdateCredential is PUT: what the body does not have stays.
func (a *API) UpdateCredential(c *management.Request, in norman.Input) (route.Answer, error) {
	d, ok := a.credential(c.ID())
	if !ok {
		return route.Answer{}, norman.Missing("cloudCredential", c.ID())
	}
	o := d.Value
	o.Data, o.Labels, o.Annotations = maps.Clone(o.Data), maps.Clone(o.Labels), maps.Clone(o.Annotations)
	return a.keep(c, in, o, clusters.SecretAt{Revision: d.Revision}, http.StatusOK)
}

// RemoveCredential is DELETE. A credential that a cluster uses stays.
func (a *API) RemoveCredential(c *management.Request) (route.Answer, error) {
	d, ok := a.credential(c.ID())
	if !ok {
		return route.Answer{}, norman.Missing("cloudCredential", c.ID())
	}
	return route.Answer{Status: http.StatusNoContent}, clusters.RemoveObject(c.Ctx(), a.State, d.Key)
}

// keep stores a credential with what a body says of it. It is read as all Secrets from outside are.
func (a *API) keep(c *management.Request, in norman.Input, o objects.Object, at clusters.SecretAt, status int) (route.Answer, error) {
	var err error
	kept := maps.Clone(o.Annotations)
	if o.Labels, o.Annotations, err = in.Labelled(o.Labels, o.Annotations); err != nil {
		return route.Answer{}, err
	}
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	for annotation, field := range map[string]string{nameAnnotation: "name", descriptionAnnotation: "description"} {
		text, err := in.String(field)
		if err != nil {
			return route.Answer{}, err
		}
		if err := norman.CheckDescription(text); err != nil {
			return route.Answer{}, err
		}
		delete(o.Annotations, annotation)
		if !in.Has(field) {
			text = kept[annotation]
		}
		if text != "" {
			o.Annotations[annotation] = text
		}
	}
	if err := configure(in, o.Data); err != nil {
		return route.Answer{}, err
	}
	text, err := json.Marshal(o.Form(0))
	if err != nil {
		return route.Answer{}, err
	}
	if o, err = read(text, objects.CredentialsNamespace, o.Name); err != nil {
		return route.Answer{}, err
	}
	d, err := clusters.PutSecret(c.Ctx(), a.State, c.Who, o, at)
	if err != nil {
		return route.Answer{}, err
	}
	c.Concern(objects.CredentialsNamespace + ":" + o.Name)
	return c.Shown(status, credential(d.Value)), nil
}

// configure sets the values that a body has.
func configure(in norman.Input, data map[string][]byte) error {
	var given map[string]any
	if in.Has(bucketConfig) {
		if err := in.Decode(bucketConfig, &given); err != nil {
			return err
		}
	}
	for _, field := range slices.Sorted(maps.Keys(given)) {
		at := bucketConfig + "." + field
		if _, known := bucketFields[field]; !known {
			return norman.Invalid(norman.InvalidOption, at, "is not a field of a credential for a bucket")
		}
		switch value := given[field].(type) {
		case nil:
		case string:
			data[bucketConfig+"-"+field] = []byte(value)
		case bool:
			if field != "defaultSkipSSLVerify" {
				return norman.Invalid(norman.InvalidFormat, at, "is not text")
			}
			data[bucketConfig+"-"+field] = []byte(map[bool]string{true: "true", false: "false"}[value])
		default:
			return norman.Invalid(norman.InvalidFormat, at, "is not text")
		}
		if len(data[bucketConfig+"-"+field]) == 0 {
			delete(data, bucketConfig+"-"+field)
		}
	}
	for _, field := range []string{"accessKey", "secretKey"} {
		if len(data[bucketConfig+"-"+field]) == 0 {
			return norman.Invalid(norman.MissingRequired, bucketConfig+"."+field, "is needed")
		}
	}
	return nil
}
