package secrets

import (
	"encoding/json"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-project/drover/plans/objects"
)

// inEnvelope is a Secret as typed clients send it.
func inEnvelope(t testing.TB, kind string, s corev1.Secret) []byte {
	t.Helper()
	raw, err := s.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	text, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte("k8s\x00"), text...)
}

// FuzzProtobuf: a Secret in protobuf is refused in words of our own, or is what the same Secret is in JSON.
func FuzzProtobuf(f *testing.F) {
	immutable := true
	for _, s := range []corev1.Secret{
		{}, {ObjectMeta: metav1.ObjectMeta{Name: "robot", Namespace: "fleet-default", Labels: map[string]string{"a": "b"}}, Type: "Opaque", Data: map[string][]byte{"password": {0, 255}}},
		{ObjectMeta: metav1.ObjectMeta{GenerateName: "sh.helm.release.v1."}, StringData: map[string]string{"release": "text"}, Immutable: &immutable},
	} {
		f.Add(inEnvelope(f, objects.Secret, s))
		f.Add(inEnvelope(f, "Pod", s))
	}
	f.Add([]byte("k8s\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fields, err := ofProtobuf(data)
		if err != nil {
			if err.Error() != "the body is not one Secret in protobuf" {
				t.Errorf("%v", err)
			}
			return
		}
		text, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		var s corev1.Secret
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatalf("%s is no Secret: %v", text, err)
		}
		again, err := ofProtobuf(inEnvelope(t, objects.Secret, s))
		if err != nil || !reflect.DeepEqual(again, fields) {
			t.Errorf("%v, %v; was %v", again, err, fields)
		}
	})
}
