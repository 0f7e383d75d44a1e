package rights

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	kubetest "k8s.io/client-go/testing"

	"github.com/drover-project/drover/server/records"
)

const shopProject = "c-m-abcdefgh:p-shop1"

func mirror(value string) records.ProjectSecret {
	return records.ProjectSecret{
		ProjectID: shopProject, Name: "mirror", Type: "Opaque", Data: map[string][]byte{"password": []byte(value)},
		Labels:      map[string]string{"team": "a", managed: "somebody"},
		Annotations: map[string]string{"note": "b"},
	}
}

// TestACopy holds what a copy looks like, as Rancher's own controllers find it.
func TestACopy(t *testing.T) {
	got := wantedCopies([]records.ProjectSecret{mirror("1")}, map[string]string{"web": shopProject, "db": "c-m-abcdefgh:p-other", "default": ""})
	want := secretCopies{{Namespace: "web", Name: "mirror"}: {
		ObjectMeta: metav1.ObjectMeta{
			Name: "mirror", Namespace: "web",
			Labels:      map[string]string{"team": "a", "app.kubernetes.io/managed-by": "drover", "management.cattle.io/project-scoped-secret": "p-shop1"},
			Annotations: map[string]string{"note": "b", "management.cattle.io/project-scoped-secret-copy": "true", "secret.user.cattle.io/secret": "true"},
		},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"password": []byte("1")},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSyncCopies(t *testing.T) {
	with := func(change func(*corev1.Secret)) *corev1.Secret {
		s := copyOf(mirror("1"), "web")
		s.UID = "1"
		change(s)
		return s
	}
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mirror", Namespace: "web", Labels: map[string]string{projectLabel: "p-shop1"}}, Data: map[string][]byte{"own": []byte("x")}}
	immutable := true
	for _, c := range []struct {
		name           string
		have           []*corev1.Secret
		secrets        []records.ProjectSecret
		changes, taken []string
		// value of the copy in web afterwards; "" for none.
		value string
	}{
		{"a new one", nil, []records.ProjectSecret{mirror("1")}, []string{"created secret web/mirror"}, nil, "1"},
		{"nothing to do", []*corev1.Secret{with(func(*corev1.Secret) {})}, []records.ProjectSecret{mirror("1")}, nil, nil, "1"},
		{"another value", []*corev1.Secret{with(func(*corev1.Secret) {})}, []records.ProjectSecret{mirror("2")}, []string{"updated secret web/mirror"}, nil, "2"},
		{"a value that somebody changed", []*corev1.Secret{with(func(s *corev1.Secret) { s.Data = map[string][]byte{"password": []byte("x")} })}, []records.ProjectSecret{mirror("1")}, []string{"updated secret web/mirror"}, nil, "1"},
		{"a label that somebody added", []*corev1.Secret{with(func(s *corev1.Secret) { s.Labels["x"] = "y" })}, []records.ProjectSecret{mirror("1")}, []string{"updated secret web/mirror"}, nil, "1"},
		{"one of another project before", []*corev1.Secret{with(func(s *corev1.Secret) { s.Labels[projectLabel] = "p-other" })}, []records.ProjectSecret{mirror("1")}, []string{"updated secret web/mirror"}, nil, "1"},
		{"another type", []*corev1.Secret{with(func(s *corev1.Secret) { s.Type = corev1.SecretTypeBasicAuth })}, []records.ProjectSecret{mirror("1")}, []string{"replaced secret web/mirror"}, nil, "1"},
		{"one that somebody made immutable", []*corev1.Secret{with(func(s *corev1.Secret) { s.Immutable = &immutable })}, []records.ProjectSecret{mirror("2")}, []string{"replaced secret web/mirror"}, nil, "2"},
		{"gone at the server", []*corev1.Secret{with(func(*corev1.Secret) {})}, nil, []string{"deleted secret web/mirror"}, nil, ""},
		{
			"in a namespace that left the project", []*corev1.Secret{with(func(s *corev1.Secret) { s.Namespace = "db" })}, []records.ProjectSecret{mirror("1")},
			[]string{"deleted secret db/mirror", "created secret web/mirror"}, nil, "1",
		},
		{
			"somebody's own of that name", []*corev1.Secret{foreign}, []records.ProjectSecret{mirror("1")},
			nil, []string{"secret web/mirror is not the project's, whose secret of that name is therefore not there"}, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var objects []runtime.Object
			for _, s := range c.have {
				objects = append(objects, s.DeepCopy())
			}
			client := fake.NewClientset(objects...)
			want := wantedCopies(c.secrets, map[string]string{"web": shopProject, "db": ""})
			changes, taken, err := syncCopies(t.Context(), client, want)
			if err != nil || !slices.Equal(changes, c.changes) || !slices.Equal(taken, c.taken) {
				t.Errorf("did %q, found taken %q, %v", changes, taken, err)
			}
			got, err := client.CoreV1().Secrets("web").Get(t.Context(), "mirror", metav1.GetOptions{})
			if c.value == "" {
				if err == nil && got.Data["own"] == nil {
					t.Errorf("%v is left", got)
				}
				return
			}
			if err != nil || string(got.Data["password"]) != c.value || got.Labels[projectLabel] != "p-shop1" || got.Labels["x"] != "" || got.Type != corev1.SecretTypeOpaque {
				t.Errorf("there is %v, %v", got, err)
			}
			if changes, _, err := syncCopies(t.Context(), client, want); len(changes) > 0 || err != nil {
				t.Errorf("once more: %q, %v", changes, err)
			}
		})
	}
}

// TestAFailureStopsNothingElse: one namespace refuses, the others have their copies; one that goes is no failure.
func TestAFailedCopyStopsNoOther(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "secrets", func(a kubetest.Action) (bool, runtime.Object, error) {
		switch a.GetNamespace() {
		case "db":
			return true, nil, errors.New("quota exceeded")
		case "going":
			err := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "mirror", errors.New("terminating"))
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return true, nil, err
		}
		return false, nil, nil
	})
	changes, _, err := syncCopies(context.Background(), client, wantedCopies([]records.ProjectSecret{mirror("hunter2")}, map[string]string{"db": shopProject, "web": shopProject, "going": shopProject}))
	if !slices.Equal(changes, []string{"created secret web/mirror"}) || err == nil || !strings.Contains(err.Error(), "secret db/mirror: not created: quota exceeded") {
		t.Errorf("did %q, %v", changes, err)
	}
	if strings.Contains(err.Error(), "going") || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}
