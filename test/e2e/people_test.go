//go:build e2e

package e2e

// Two people with different roles in one cluster of the real k3s, through the server: what each may see, how soon a
// new right is in effect, and how soon one is gone.

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-project/drover/test/bed"
)

// effectiveWithin is how long a change of rights may take until a cluster goes by it.
const effectiveWithin = 5 * time.Second

// person is a user who is logged in.
type person struct {
	w                    *walk
	name, id, token      string
	kubeconfig, password string
}

// people gives two people roles in the cluster, and takes them away.
func (w *walk) people() {
	admin := w.administrator()
	ann, bob := admin.newPerson("ann"), admin.newPerson("bob")
	cluster := admin.clusterID("harbour")
	project := admin.find("/v3/projects?clusterId="+cluster+"&name=Default", "id")

	if status, _ := ann.ask(http.MethodGet, "/v3/clusters/"+cluster, nil); status != http.StatusNotFound {
		w.Errorf("ann, who has no role, gets status %d for the cluster", status)
	}
	reads := admin.post("/v3/projectroletemplatebindings", map[string]any{"projectId": project, "roleTemplateId": "read-only", "userId": ann.id})
	admin.post("/v3/clusterroletemplatebindings", map[string]any{"clusterId": cluster, "roleTemplateId": "cluster-member", "userId": bob.id})
	began := time.Now()
	ann.fetchKubeconfig(cluster)
	bob.fetchKubeconfig(cluster)

	w.within(began, "ann reads pods of her project", func() error { return ann.may("get", "pods", "-n", "default") })
	w.within(began, "bob reads what a member of the cluster reads", func() error { return bob.may("get", "persistentvolumes") })
	for _, no := range [][]string{{"get", "pods", "-n", "kube-system"}, {"get", "secrets", "-n", "default"}, {"get", "namespaces"}, {"create", "namespace", "anns"}} {
		ann.mayNot(no...)
	}
	for _, no := range [][]string{{"get", "pods", "-n", "default"}, {"delete", "node", "--all"}} {
		bob.mayNot(no...)
	}
	must(w.T, ann.may("get", "namespace", "default"))

	w.withoutTheServer(ann, bob, cluster)

	// A namespace that moves into the project takes its readers along.
	config := w.kubeconfig()
	_, err := w.Kubectl(w.ctx, "--kubeconfig", config, "create", "namespace", "web")
	must(w.T, err)
	admin.move("web", cluster, project)
	w.within(time.Now(), "ann reads pods of a namespace that was moved into her project", func() error { return ann.may("get", "pods", "-n", "web") })
	w.marksCountForNothing(config, "web", project, admin.find("/v3/projects?clusterId="+cluster+"&name=System", "id"))
	w.projectSecret(admin, project, "default", "web")
	member := admin.post("/v3/projectroletemplatebindings", map[string]any{"projectId": project, "roleTemplateId": "project-member", "userId": ann.id})
	w.within(time.Now(), "ann, a member of the project now, sees of which classes claims can be", func() error { return ann.may("get", "storageclasses") })
	ann.mayNot("delete", "storageclass", "local-path")
	admin.remove("/v3/projectroletemplatebindings/" + member)

	admin.remove("/v3/projectroletemplatebindings/" + reads)
	w.within(time.Now(), "ann reads nothing any more", func() error {
		if ann.may("get", "pods", "-n", "default") == nil {
			return errors.New("she still does")
		}
		return nil
	})
	if status, body := admin.ask(http.MethodPut, "/v3/users/"+bob.id, map[string]any{"enabled": false}); status != http.StatusOK {
		w.Fatalf("disable bob: status %d: %s", status, body)
	}
	if err := bob.may("get", "persistentvolumes"); err == nil || !strings.Contains(err.Error(), "Unauthorized") && !strings.Contains(err.Error(), "must authenticate") {
		w.Errorf("bob, who is disabled, gets: %v", err)
	}
	w.goneDirectly(bob, "get", "persistentvolumes")
}

// move moves a namespace into a project, or out of any for nil.
func (p *person) move(namespace, cluster string, project any) {
	p.w.Helper()
	if status, body := p.ask(http.MethodPost, "/v3/cluster/"+cluster+"/namespaces/"+namespace+"?action=move", map[string]any{"projectId": project}); status != http.StatusOK {
		p.w.Fatalf("move namespace %s to %v: status %d: %s", namespace, project, status, body)
	}
}

// marksCountForNothing: what a namespace says of itself in the cluster is put back; one that is made through the server with a mark is in
// that project.
func (w *walk) marksCountForNothing(config, namespace, project, other string) {
	w.Helper()
	mark := func(name string) string {
		out, err := w.Kubectl(w.ctx, "--kubeconfig", config, "get", "namespace", name, "-o", `jsonpath={.metadata.annotations.field\.cattle\.io/projectId}`)
		must(w.T, err)
		return out
	}
	is := func(name, want string) func() error {
		return func() error {
			if got := mark(name); got != want {
				return fmt.Errorf("it is %q, want %q", got, want)
			}
			return nil
		}
	}
	w.within(time.Now(), "the mark of "+namespace, is(namespace, project))
	_, err := w.Kubectl(w.ctx, "--kubeconfig", config, "annotate", "--overwrite", "namespace", namespace, "field.cattle.io/projectId="+other)
	must(w.T, err)
	w.within(time.Now(), "the mark of "+namespace+" put back", is(namespace, project))
	file := filepath.Join(w.TempDir(), "namespace.yaml")
	text := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: marked\n  annotations:\n    field.cattle.io/projectId: %q\n", project)
	must(w.T, os.WriteFile(file, []byte(text), 0o600))
	_, err = w.Kubectl(w.ctx, "--kubeconfig", config, "create", "-f", file)
	must(w.T, err)
	w.within(time.Now(), "the label of a namespace made in the project", func() error {
		out, err := w.Kubectl(w.ctx, "--kubeconfig", config, "get", "namespace", "marked", "-o", `jsonpath={.metadata.labels.field\.cattle\.io/projectId}`)
		if _, short, _ := strings.Cut(project, ":"); err != nil || out != short {
			return fmt.Errorf("it is %q: %w", out, err)
		}
		return is("marked", project)()
	})
}

// projectSecret gives a project a secret, which is in its namespaces and leaves one of them with the namespace.
func (w *walk) projectSecret(admin *person, project string, namespaces ...string) {
	w.Helper()
	config := w.kubeconfig()
	value := func(namespace string) (string, error) {
		return w.Kubectl(w.ctx, "--kubeconfig", config, "get", "secret", "mirror", "-n", namespace, "-o", "jsonpath={.data.password}")
	}
	id := admin.post("/v3/project/"+project+"/secrets", map[string]any{"name": "mirror", "stringData": map[string]string{"password": "hunter2"}})
	for _, namespace := range namespaces {
		w.within(time.Now(), "the project's secret is in "+namespace, func() error {
			if text, err := value(namespace); err != nil || text != "aHVudGVyMg==" {
				return fmt.Errorf("there is %q: %w", text, err)
			}
			return nil
		})
	}
	gone := func(namespace string) func() error {
		return func() error {
			if _, err := value(namespace); err == nil {
				return errors.New("it is still there")
			}
			return nil
		}
	}
	last := namespaces[len(namespaces)-1]
	cluster, _, _ := strings.Cut(project, ":")
	admin.move(last, cluster, nil)
	w.within(time.Now(), "the secret has left with "+last, gone(last))
	admin.remove("/v3/project/" + project + "/secrets/" + id)
	w.within(time.Now(), "the secret that was removed is nowhere", gone(namespaces[0]))
}

// within waits until something is so and prints how long that took.
func (w *walk) within(began time.Time, what string, is func() error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	must(w.T, bed.Await(ctx, what, 100*time.Millisecond, func(context.Context) error { return is() }))
	took := time.Since(began).Round(10 * time.Millisecond)
	w.Logf("%s after %s (budget %s)", what, took, effectiveWithin)
}

func (w *walk) administrator() *person {
	w.Helper()
	token, err := os.ReadFile(filepath.Join(w.DataDir, "admin-token"))
	must(w.T, err)
	return &person{w: w, name: "admin", token: strings.TrimSpace(string(token))}
}

// newPerson makes a user who may log in and nothing else, and logs them in.
func (p *person) newPerson(name string) *person {
	p.w.Helper()
	n := &person{w: p.w, name: name, password: "correct horse " + name}
	n.id = p.post("/v3/users", map[string]any{"username": name, "name": strings.ToUpper(name), "password": n.password, "enabled": true, "mustChangePassword": false})
	p.post("/v3/globalrolebindings", map[string]any{"userId": n.id, "globalRoleId": "user-base"})
	status, body := (&person{w: p.w}).ask(http.MethodPost, "/v3-public/localProviders/local?action=login", map[string]any{"username": name, "password": n.password})
	var login struct{ Token string }
	if err := json.Unmarshal(body, &login); status != http.StatusCreated || err != nil || login.Token == "" {
		p.w.Fatalf("%s logs in: status %d, %v: %s", name, status, err, body)
	}
	n.token = login.Token
	return n
}

func (p *person) clusterID(name string) string {
	p.w.Helper()
	return p.find("/v3/clusters?name="+name, "id")
}

// find is a field of the one item of a list.
func (p *person) find(path, field string) string {
	p.w.Helper()
	status, body := p.ask(http.MethodGet, path, nil)
	var list struct{ Data []map[string]any }
	if err := json.Unmarshal(body, &list); status != http.StatusOK || err != nil || len(list.Data) != 1 {
		p.w.Fatalf("GET %s: status %d, %v: %s", path, status, err, body)
	}
	return fmt.Sprint(list.Data[0][field])
}

// post creates something and returns its id.
func (p *person) post(path string, fields map[string]any) string {
	p.w.Helper()
	status, body := p.ask(http.MethodPost, path, fields)
	var made struct{ ID string }
	if err := json.Unmarshal(body, &made); status != http.StatusCreated || err != nil || made.ID == "" {
		p.w.Fatalf("POST %s: status %d, %v: %s", path, status, err, body)
	}
	return made.ID
}

func (p *person) remove(path string) {
	p.w.Helper()
	if status, body := p.ask(http.MethodDelete, path, nil); status != http.StatusOK && status != http.StatusNoContent {
		p.w.Fatalf("DELETE %s: status %d: %s", path, status, body)
	}
}

func (p *person) ask(method, path string, fields map[string]any) (int, []byte) {
	p.w.Helper()
	var content io.Reader
	if fields != nil {
		text, err := json.Marshal(fields)
		must(p.w.T, err)
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(p.w.ctx, method, p.w.URL+path, content)
	must(p.w.T, err)
	request.Header.Set("Content-Type", "application/json")
	if p.token != "" {
		request.Header.Set("Authorization", "Bearer "+p.token)
	}
	trust, err := p.w.Trust()
	must(p.w.T, err)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust}, DisableKeepAlives: true}}
	answer, err := client.Do(request)
	must(p.w.T, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(p.w.T, err)
	return answer.StatusCode, body
}

// fetchKubeconfig gets the person's own.
func (p *person) fetchKubeconfig(cluster string) {
	p.w.Helper()
	status, body := p.ask(http.MethodPost, "/v3/clusters/"+cluster+"?action=generateKubeconfig", nil)
	var output struct{ Config string }
	if err := json.Unmarshal(body, &output); status != http.StatusOK || err != nil || output.Config == "" {
		p.w.Fatalf("the kubeconfig of %s: status %d, %v: %s", p.name, status, err, body)
	}
	p.kubeconfig = filepath.Join(p.w.Dir, "kubeconfig-"+p.name)
	must(p.w.T, os.WriteFile(p.kubeconfig, []byte(output.Config), 0o600))
}

// may runs kubectl as the person.
func (p *person) may(args ...string) error {
	_, err := p.w.Kubectl(p.w.ctx, append([]string{"--kubeconfig", p.kubeconfig, "--request-timeout=20s"}, args...)...)
	return err
}

// mayNot runs kubectl as the person, which the cluster's API has to refuse by their name.
func (p *person) mayNot(args ...string) {
	p.w.Helper()
	err := p.may(args...)
	if err == nil || !strings.Contains(err.Error(), "Forbidden") || !strings.Contains(err.Error(), p.id) {
		p.w.Errorf("%s: kubectl %s: %v", p.name, strings.Join(args, " "), err)
	}
}
