// What makes a Kubernetes a cluster of the server: the objects of the cluster agent, as text for
// kubectl. It is pure text: equal input gives equal bytes, so that applying it again restarts nothing. Names and labels are
// Rancher's, so that it converges with an installation of that, and is cleaned by the same programs.
//
// Wire source: rancher/rancher v2.8.5 pkg/systemtemplate.

package clusteragents

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/server/clusterspec"
)

// Namespace is where all that is in a namespace is.
const Namespace = "cattle-system"

// tokenMount is where the pod has the token of its service account and the CA of its API server: a Secret that Kubernetes
// fills, whose token does not end with the pod.
const tokenMount = "/cattle-service-account"

// Names of what is made.
const (
	account     = "cattle"
	role        = "cattle-admin"
	binding     = "cattle-admin-binding"
	tokenSecret = "cattle-agent-token"
	proxyRole   = "proxy-clusterrole-kubeapiserver"
	proxyBind   = "proxy-role-binding-kubernetes-master"
	agent       = "cattle-cluster-agent"
	mount       = "/cattle-credentials"
	rbac        = "rbac.authorization.k8s.io"
)

// Cluster is what the agent of a cluster has to know.
type Cluster struct {
	// Server is the URL, Token a registration token.
	Server, Token string
	// Namespace is the cluster's ID where the server itself deploys the agent, and empty in what people apply.
	Namespace string
	// Checksum pins the server's CA; empty trusts the image's bundle. Strict trusts the pinned one alone.
	Checksum string
	Strict   bool
	// Image is the agent's, and Registry what is put before images; empty for nothing.
	Image, Registry string
	// Version is the server's, Install its installation's ID.
	Version, Install string
	// Env are the variables that the cluster gives to its agents.
	Env []clusterspec.EnvVar
}

// object is one document.
type object = map[string]any

// manifest is the whole manifest. It returns an error where YAML cannot be made of it.
func manifest(c Cluster) ([]byte, error) { return write(Objects(c)) }

// Cleanup is the manifest of what is to be deleted by hand in a cluster whose agent does not answer: names alone. The error is that of YAML.
func Cleanup() ([]byte, error) {
	return write([]object{
		named("v1", "Namespace", Namespace, ""), named("v1", "Namespace", "cattle-impersonation-system", ""),
		named(rbac+"/v1", "ClusterRoleBinding", binding, ""), named(rbac+"/v1", "ClusterRole", role, ""),
		named(rbac+"/v1", "ClusterRoleBinding", proxyBind, ""), named(rbac+"/v1", "ClusterRole", proxyRole, ""),
	})
}

// Objects are the documents, in the order in which they are applied.
func Objects(c Cluster) []object {
	credentials := "cattle-credentials-" + credentialsKey(c)
	return []object{
		with(named(rbac+"/v1", "ClusterRole", proxyRole, ""), "rules", []object{{
			"apiGroups": []string{""}, "resources": []string{"nodes/metrics", "nodes/proxy", "nodes/stats", "nodes/log", "nodes/spec"},
			"verbs": []string{"get", "list", "watch", "create"},
		}}),
		bound(proxyBind, proxyRole, object{"apiGroup": rbac, "kind": "User", "name": "kube-apiserver"}),
		named("v1", "Namespace", Namespace, ""),
		named("v1", "ServiceAccount", account, Namespace),
		labelled(with(named(rbac+"/v1", "ClusterRole", role, ""), "rules", []object{
			{"apiGroups": []string{"*"}, "resources": []string{"*"}, "verbs": []string{"*"}},
			{"nonResourceURLs": []string{"*"}, "verbs": []string{"*"}},
		})),
		labelled(bound(binding, role, object{"kind": "ServiceAccount", "name": account, "namespace": Namespace})),
		annotated(typed("kubernetes.io/service-account-token", named("v1", "Secret", tokenSecret, Namespace)), "kubernetes.io/service-account.name", account),
		with(typed("Opaque", named("v1", "Secret", credentials, Namespace)), "data", object{
			"url": encoded(c.Server), "token": encoded(c.Token), "namespace": encoded(c.Namespace),
		}),
		deployment(c, credentials),
		with(named("v1", "Service", agent, Namespace), "spec", object{
			"selector": object{"app": agent},
			"ports": []object{
				{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80},
				{"name": "https-internal", "port": 443, "protocol": "TCP", "targetPort": 444},
			},
		}),
	}
}

// credentialsKey ends the name of the Secret, so that other credentials are another Secret and the pods are made anew.
func credentialsKey(c Cluster) string {
	sum := sha256.Sum256([]byte(c.Server + "." + c.Token + "." + c.Namespace))
	return hex.EncodeToString(sum[:])[:10]
}

func deployment(c Cluster, credentials string) object {
	labels := object{"app": agent}
	return with(annotated(named("apps/v1", "Deployment", agent, Namespace), "management.cattle.io/scale-available", "2"), "spec", object{
		"replicas": 2,
		"selector": object{"matchLabels": labels},
		"strategy": object{"type": "RollingUpdate", "rollingUpdate": object{"maxUnavailable": 0, "maxSurge": 1}},
		"template": object{
			"metadata": object{"labels": labels},
			"spec": object{
				"serviceAccountName": account, "affinity": affinity(), "tolerations": tolerations(),
				"containers": []object{container(c, credentials)},
				"volumes": []object{
					{"name": "cattle-credentials", "secret": object{"secretName": credentials, "defaultMode": 0o500}},
					{"name": "cattle-service-account", "secret": object{"secretName": tokenSecret, "defaultMode": 0o400}},
				},
			},
		},
	})
}

func container(c Cluster, credentials string) object {
	o := object{
		"name": "cluster-register", "image": image(c), "imagePullPolicy": "IfNotPresent", "env": environment(c, credentials),
		"resources": object{"requests": object{"cpu": "10m", "memory": "32Mi"}},
		"volumeMounts": []object{
			{"name": "cattle-credentials", "mountPath": mount, "readOnly": true},
			{"name": "cattle-service-account", "mountPath": tokenMount, "readOnly": true},
		},
	}
	if !original(c.Image) { // whose agent does not answer to these
		o["readinessProbe"] = object{"exec": object{"command": []string{"rancher-agent", "health", "--ready"}}, "periodSeconds": 5, "timeoutSeconds": 5}
		o["livenessProbe"] = object{"exec": object{"command": []string{"rancher-agent", "health"}}, "initialDelaySeconds": 10, "periodSeconds": 30, "timeoutSeconds": 10, "failureThreshold": 4}
	}
	return o
}

// original says that an image is Rancher's own, from whichever registry.
func original(image string) bool {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	return name == "rancher/rancher-agent" || strings.HasSuffix(name, "/rancher/rancher-agent")
}

// image is the name of the image with the server's registry before it, unless it names one itself.
func image(c Cluster) string {
	host, _, more := strings.Cut(c.Image, "/")
	if c.Registry == "" || more && (strings.ContainsAny(host, ".:") || host == "localhost") {
		return c.Image
	}
	return c.Registry + "/" + c.Image
}

// environment is that of the container, those variables of the cluster last that are not the agent's own.
func environment(c Cluster, credentials string) []object {
	var env []object
	own := map[string]bool{}
	for _, v := range []clusterspec.EnvVar{
		{Name: "CATTLE_FEATURES", Value: ""}, {Name: "CATTLE_IS_RKE", Value: "false"}, {Name: "CATTLE_SERVER", Value: c.Server}, {Name: "CATTLE_CA_CHECKSUM", Value: c.Checksum},
		{Name: "CATTLE_CLUSTER", Value: "true"}, {Name: "CATTLE_K8S_MANAGED", Value: "true"}, {Name: "CATTLE_CLUSTER_REGISTRY", Value: c.Registry},
		{Name: "CATTLE_CREDENTIAL_NAME", Value: credentials}, {Name: "CATTLE_SERVER_VERSION", Value: c.Version}, {Name: "CATTLE_INSTALL_UUID", Value: c.Install},
		{Name: "STRICT_VERIFY", Value: strconv.FormatBool(c.Strict)},
	} {
		own[v.Name] = true
		env = append(env, object{"name": v.Name, "value": v.Value})
	}
	for _, v := range c.Env {
		if v.Value != "" && !own[v.Name] {
			env = append(env, object{"name": v.Name, "value": v.Value})
		}
	}
	return env
}

// affinity has the agents on control planes, and on different nodes, where that is possible.
func affinity() object {
	prefer := func(weight int, key string, values ...string) object {
		return object{"weight": weight, "preference": object{"matchExpressions": []object{{"key": key, "operator": "In", "values": values}}}}
	}
	return object{
		"nodeAffinity": object{
			"requiredDuringSchedulingIgnoredDuringExecution": object{"nodeSelectorTerms": []object{
				{"matchExpressions": []object{{"key": "kubernetes.io/os", "operator": "NotIn", "values": []string{"windows"}}}},
			}},
			"preferredDuringSchedulingIgnoredDuringExecution": []object{
				prefer(100, "node-role.kubernetes.io/controlplane", "true"), prefer(100, "node-role.kubernetes.io/control-plane", "true"),
				prefer(100, "node-role.kubernetes.io/master", "true"), prefer(1, "cattle.io/cluster-agent", "true"),
			},
		},
		"podAntiAffinity": object{"preferredDuringSchedulingIgnoredDuringExecution": []object{{
			"weight": 100,
			"podAffinityTerm": object{
				"topologyKey":   "kubernetes.io/hostname",
				"labelSelector": object{"matchExpressions": []object{{"key": "app", "operator": "In", "values": []string{agent}}}},
			},
		}}},
	}
}

// tolerations let the agents run where clusters keep other pods away: on control planes and etcd nodes.
func tolerations() []object {
	var all []object
	for _, key := range []string{"node-role.kubernetes.io/controlplane", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
		all = append(all, object{"key": key, "operator": "Exists", "effect": "NoSchedule"})
	}
	return append(all, object{"key": "node-role.kubernetes.io/etcd", "operator": "Exists"}, object{"key": "CriticalAddonsOnly", "operator": "Exists"})
}

func named(version, kind, name, namespace string) object {
	metadata := object{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	return object{"apiVersion": version, "kind": kind, "metadata": metadata}
}

// with puts pairs of a name and a value to an object.
func with(o object, pairs ...any) object {
	for i := 0; i+1 < len(pairs); i += 2 {
		o[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return o
}

func typed(kind string, o object) object { return with(o, "type", kind) }

// labelled has the mark by which clean-ups find what a server has put into a cluster.
func labelled(o object) object { return marked(o, "labels", "cattle.io/creator", "norman") }

func annotated(o object, key, value string) object { return marked(o, "annotations", key, value) }

func marked(o object, what, key, value string) object {
	if metadata, ok := o["metadata"].(object); ok {
		metadata[what] = object{key: value}
	}
	return o
}

func bound(name, to string, subject object) object {
	return with(named(rbac+"/v1", "ClusterRoleBinding", name, ""),
		"roleRef", object{"apiGroup": rbac, "kind": "ClusterRole", "name": to}, "subjects", []object{subject})
}

func encoded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func write(all []object) ([]byte, error) {
	var b bytes.Buffer
	for _, o := range all {
		text, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("write the manifest of the cluster agent: %w", err)
		}
		b.WriteString("---\n")
		b.Write(text)
	}
	return b.Bytes(), nil
}

// kinds are the collections of the objects' kinds.
var kinds = map[string]string{
	"Namespace": "/api/v1/namespaces", "ServiceAccount": "serviceaccounts", "Secret": "secrets", "Service": "services", "Deployment": "deployments",
	"ClusterRole": "/apis/" + rbac + "/v1/clusterroles", "ClusterRoleBinding": "/apis/" + rbac + "/v1/clusterrolebindings",
}

// PathOf is where an object of a manifest is. It returns an error for a kind that manifests do not have.
func PathOf(o map[string]any) (string, error) {
	metadata, _ := o["metadata"].(object)
	kind, name := kinds[fmt.Sprint(o["kind"])], fmt.Sprint(metadata["name"])
	namespace, in := metadata["namespace"]
	switch {
	case kind == "" || metadata["name"] == nil:
		return "", fmt.Errorf("the manifest of the cluster agent has an object of kind %v, which has no place", o["kind"])
	case !in:
		return kind + "/" + name, nil
	case o["apiVersion"] == "v1":
		return fmt.Sprintf("/api/v1/namespaces/%v/%s/%s", namespace, kind, name), nil
	}
	return fmt.Sprintf("/apis/%v/namespaces/%v/%s/%s", o["apiVersion"], namespace, kind, name), nil
}

// ClusterWide are the paths of what is in no namespace, the rights of the agent, which end last.
func ClusterWide() []string {
	roles, bindings := kinds["ClusterRole"]+"/", kinds["ClusterRoleBinding"]+"/"
	return []string{bindings + proxyBind, roles + proxyRole, bindings + binding, roles + role}
}
