package planapi_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/planapi"
	"github.com/drover-project/drover/server/records"
)

func (f *fixture) config(token string) *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	return &rest.Config{Host: f.server.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: ca, ServerName: "example.com"}}
}

func (f *fixture) clientset(t *testing.T, token string) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(f.config(token))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestClientGoDiscovery is what the original agent and kubectl do at their start.
func TestClientGoDiscovery(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	c, err := discovery.NewDiscoveryClientForConfig(f.config(one))
	if err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(c)
	if err != nil {
		t.Fatal(err)
	}
	mapping, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(schema.GroupKind{Kind: "Secret"}, "v1")
	if err != nil || mapping.Resource.Resource != "secrets" || mapping.Scope.Name() != "namespace" {
		t.Errorf("mapping %+v, %v", mapping, err)
	}
	version, err := c.ServerVersion()
	if err != nil || version.Minor != "34" {
		t.Errorf("version %+v, %v", version, err)
	}
}

func TestClientGoUpdate(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	f.set(t, oneKey, "plan", "{}", "plan-state", "pending")
	config := f.config(one)
	config.ContentType = "application/json" // as agents have it; the typed clients of client-go would send protobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	secretsOf := client.CoreV1().Secrets(namespace)
	read, err := secretsOf.Get(t.Context(), one+suffix, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first, second := read.DeepCopy(), read.DeepCopy()
	first.Data["plan-state"], first.Data["failed-output"] = []byte("in-progress"), nil
	written, err := secretsOf.Update(t.Context(), first, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]byte{"plan": []byte("{}"), "plan-state": []byte("in-progress"), "failed-output": {}}, written.Data); diff != "" {
		t.Error(diff)
	}
	if _, err := secretsOf.Update(t.Context(), second, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a stale update: %v", err)
	}
	if _, err := f.clientset(t, one).CoreV1().Secrets(namespace).Update(t.Context(), written, metav1.UpdateOptions{}); !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("an update in protobuf: %v", err)
	}
	if _, err := secretsOf.Get(t.Context(), two+suffix, metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("another machine's Secret: %v", err)
	}
	if _, err := f.clientset(t, "nobody").CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("an unknown token: %v", err)
	}
	admin := f.clientset(t, "admin").CoreV1().Secrets(namespace)
	if _, err := admin.Get(t.Context(), "none", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Secret that is not there: %v", err)
	}
	if _, err := admin.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("a watch from long ago: %v", err)
	}
	patched, err := admin.Patch(t.Context(), one+suffix, types.StrategicMergePatchType, []byte(`{"stringData":{"x":"y"}}`), metav1.PatchOptions{})
	if err != nil || string(patched.Data["x"]) != "y" {
		t.Errorf("a patch: %v", err)
	}
	all, err := f.clientset(t, "admin").CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil || len(all.Items) != 2 || all.Continue != "" {
		t.Errorf("all Secrets: %v, %v", all, err)
	}
}

// gate keeps client-go's setting, which is one for the process, as a test wants it.
var gate sync.Mutex

// reflector makes a reflector that begins with a streamed list, or with a list.
func reflector(t *testing.T, lw *cache.ListWatch, store cache.ReflectorStore, streamed bool) *cache.Reflector {
	t.Helper()
	gate.Lock()
	defer gate.Unlock()
	gates, ok := clientfeatures.FeatureGates().(interface {
		Set(clientfeatures.Feature, bool) error
	})
	if !ok {
		t.Fatal("client-go's feature gates cannot be set")
	}
	if err := gates.Set(clientfeatures.WatchListClient, streamed); err != nil {
		t.Fatal(err)
	}
	return cache.NewReflectorWithOptions(lw, &corev1.Secret{}, store, cache.ReflectorOptions{})
}

// informer runs client-go's reflector over Secrets and reports each change.
func informer(t *testing.T, c kubernetes.Interface, fieldSelector string, streamed bool) (cache.Store, <-chan string) {
	t.Helper()
	changes := make(chan string, 1000)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = fieldSelector
			return c.CoreV1().Secrets(namespace).List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = fieldSelector
			return c.CoreV1().Secrets(namespace).Watch(ctx, o)
		},
	}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	r := reflector(t, lw, reportingStore{store, changes}, streamed)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.RunWithContext(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return store, changes
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reportingStore reports what a reflector does to it.
type reportingStore struct {
	cache.Store
	changes chan<- string
}

func (s reportingStore) Add(obj any) error { return s.report("add", obj, s.Store.Add(obj)) }
func (s reportingStore) Update(obj any) error {
	return s.report("update", obj, s.Store.Update(obj))
}
func (s reportingStore) Delete(obj any) error { return s.report("delete", obj, s.Store.Delete(obj)) }
func (s reportingStore) Replace(all []any, version string) error {
	err := s.Store.Replace(all, version)
	s.changes <- "replace"
	return err
}

func (s reportingStore) report(what string, obj any, err error) error {
	if secret, ok := obj.(*corev1.Secret); ok {
		s.changes <- what + " " + string(secret.Data["plan"])
	}
	return err
}

func await(t *testing.T, changes <-chan string, want string) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	var heard []string
	for {
		select {
		case got := <-changes:
			if got == want {
				return
			}
			heard = append(heard, got)
		case <-deadline:
			t.Fatalf("heard %q, but not %q", heard, want)
		}
	}
}

// TestClientGoInformer: both generations of client-go follow one Secret.
func TestClientGoInformer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		streamed bool
		options  []option
	}{
		{"list and watch", false, nil},
		{"streamed list", true, nil},
		{"list and watch over HTTP/2", false, []option{http2}},
		{"streamed list over HTTP/2", true, []option{http2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := setUp(t, append(c.options, heartbeat(50*time.Millisecond))...)
			f.set(t, oneKey, "plan", "a")
			var lists atomic.Int32
			config := f.config(one)
			config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.URL.Query().Get("watch") == "" {
						lists.Add(1)
					}
					return rt.RoundTrip(r)
				})
			})
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			store, changes := informer(t, client, fields.OneTermEqualSelector("metadata.name", one+suffix).String(), c.streamed)
			await(t, changes, "replace")
			f.set(t, oneKey, "plan", "b")
			await(t, changes, "update b")
			f.set(t, namespace+"/"+two+suffix, "plan", "other")
			f.remove(t, oneKey)
			await(t, changes, "delete b")
			f.create(t, one)
			await(t, changes, "add ")
			f.set(t, oneKey, "plan", "c")
			await(t, changes, "update c")
			if keys := store.ListKeys(); len(keys) != 1 || keys[0] != oneKey {
				t.Errorf("it has %q", keys)
			}
			if want := map[bool]int32{false: 1, true: 0}[c.streamed]; lists.Load() != want {
				t.Errorf("%d lists, want %d", lists.Load(), want)
			}
		})
	}
}

// TestClientGoSurvivesRestart: what is removed while the server is down is only known
// by listing again, which "too old" makes an informer do.
func TestClientGoSurvivesRestart(t *testing.T) {
	t.Parallel()
	for _, streamed := range []bool{false, true} {
		t.Run(map[bool]string{false: "list and watch", true: "streamed list"}[streamed], func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			var handler atomic.Pointer[http.ServeMux]
			start := func() *planapi.API {
				api := planapi.New(planapi.Options{
					State:   f.state,
					Machine: func(string) (records.MachineKey, bool) { return "", false },
					User:    func(*http.Request) (auth.Identity, error) { return auth.Identity{UserID: "u-1", Admin: true}, nil },
				})
				mux := http.NewServeMux()
				api.Routes(mux)
				handler.Store(mux)
				return api
			}
			api := start()
			f.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.Load().ServeHTTP(w, r) }))
			t.Cleanup(f.server.Close)
			store, changes := informer(t, f.clientset(t, "admin"), "", streamed)
			await(t, changes, "replace")
			f.set(t, oneKey, "plan", "a")
			await(t, changes, "update a")

			handler.Store(http.NewServeMux()) // down
			api.Close()
			f.remove(t, oneKey)
			api = start()
			t.Cleanup(api.Close)
			await(t, changes, "replace")
			if keys := store.ListKeys(); len(keys) != 1 || keys[0] != namespace+"/"+two+suffix {
				t.Errorf("after the restart it has %q", keys)
			}
			f.set(t, namespace+"/"+two+suffix, "plan", "b")
			await(t, changes, "update b")
		})
	}
}
