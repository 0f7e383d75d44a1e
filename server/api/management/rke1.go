// What the management API has of RKE1 clusters besides: the config that was brought about last, when certificates end, and the
// actions by which clients ask for what the server does as operations.

package management

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/views"
)

// rke1Actions are those of clusters, in the words of Rancher's RKE1 clusters.
func rke1Actions() map[string]norman.Action {
	return map[string]norman.Action{
		"exportYaml":            {Output: "exportOutput"},
		"rotateCertificates":    {Input: "rotateCertificateInput", Output: "rotateCertificateOutput"},
		"rotateEncryptionKey":   {Output: "rotateEncryptionKeyOutput"},
		"backupEtcd":            {Output: "etcdBackup"},
		"restoreFromEtcdBackup": {Input: "restoreFromEtcdBackupInput"},
	}
}

// rke1Fields adds to a cluster what only those of RKE1 have.
func rke1Fields(object *norman.Object, cl records.Cluster, kept records.RKEState, u norman.URLs) {
	if !cl.Spec.RKE1() {
		return
	}
	object.Actions = append(slices.Clone(object.Actions), "exportYaml")
	if cl.Status.Initialized && cl.Deleting.IsZero() {
		object.Actions = append(object.Actions, "rotateCertificates", "rotateEncryptionKey", "backupEtcd", "restoreFromEtcdBackup")
	}
	object.Links["etcdBackups"] = u.Base + "/v3/etcdbackups?clusterId=" + cl.ID
	object.Fields["appliedSpec"], object.Fields["failedSpec"] = specOf(kept.Applied), specOf(kept.Failed)
	ends := map[string]map[string]string{}
	for name, at := range kept.Ends {
		ends[name] = map[string]string{"expirationDate": at.UTC().Format("2006-01-02T15:04:05Z")}
	}
	object.Fields["certificatesExpiration"] = ends
}

// specOf is a config as clients see it; nil for none.
func specOf(text json.RawMessage) any {
	if len(text) == 0 {
		return nil
	}
	return map[string]any{"type": "clusterSpec", "rancherKubernetesEngineConfig": desired.PublicConfig(clusterspec.RKE1Config(text))}
}

// ask begins an operation on the cluster of a request.
func (a Clusters) ask(c *Request, request desired.Request) (operations.Operation, error) {
	d, ok := visibleCluster(a.State, c.Call, c.id)
	if !ok || a.RKE == nil {
		return operations.Operation{}, norman.Missing("cluster", c.id)
	}
	return a.RKE.Ask(c.Ctx(), records.ClusterKey(d.Key), request, c.Who.UserID, admission.Refuse)
}

func message(kind, format string, args ...any) route.Answer {
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"type": kind, "baseType": kind, "message": fmt.Sprintf(format, args...), "links": map[string]string{}, "actions": map[string]string{},
	}}
}

// RotateCertificates is the action with {"caCertificates": false, "services": "kubelet"}.
func (a Clusters) RotateCertificates(c *Request) (route.Answer, error) {
	in, err := norman.ReadInput(c.W, c.R, maxAction)
	if err != nil {
		return route.Answer{}, err
	}
	request := desired.Request{Kind: operations.KindRotateCertificates}
	if request.CA, err = in.Bool("caCertificates"); err != nil {
		return route.Answer{}, err
	}
	services, err := in.String("services")
	if err != nil {
		return route.Answer{}, err
	}
	if services != "" && !request.CA { // with which Rancher does not look at it
		request.Services = strings.Split(services, ",")
	}
	if err := request.Check(); err != nil {
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "services", "%v", err)
	}
	o, err := a.ask(c, request)
	if err != nil {
		return route.Answer{}, err
	}
	return message("rotateCertificateOutput", "operation %s: %s", o.ID, o.Title), nil
}

// RotateEncryptionKey is the action without input.
func (a Clusters) RotateEncryptionKey(c *Request) (route.Answer, error) {
	o, err := a.ask(c, desired.Request{Kind: operations.KindRotateKeys})
	if err != nil {
		return route.Answer{}, err
	}
	return message("rotateEncryptionKeyOutput", "operation %s: %s", o.ID, o.Title), nil
}

// ExportYAML is the action that shows the cluster as a document, without what is secret in it.
func (a Clusters) ExportYAML(c *Request) (route.Answer, error) {
	d, ok := visibleCluster(a.State, c.Call, c.id)
	if !ok {
		return route.Answer{}, norman.Missing("cluster", c.id)
	}
	doc := views.OfDocument(d.Value)
	doc.Spec.RancherKubernetesEngineConfig = desired.Public(d.Value.Spec)
	text, err := json.Marshal(doc)
	if err != nil {
		return route.Answer{}, fmt.Errorf("export cluster %s: %w", d.Key, err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return route.Answer{}, fmt.Errorf("export cluster %s: %w", d.Key, err)
	}
	written, err := yaml.Marshal(fields)
	if err != nil {
		return route.Answer{}, fmt.Errorf("export cluster %s: %w", d.Key, err)
	}
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"type": "exportOutput", "baseType": "exportOutput", "yamlOutput": string(written), "links": map[string]string{}, "actions": map[string]string{},
	}}, nil
}
