package manifest

import (
	"fmt"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestPick(t *testing.T) {
	index := func(platforms ...string) (all []v1.Descriptor) {
		for i, text := range platforms {
			d := v1.Descriptor{Digest: v1.Hash{Algorithm: "sha256", Hex: fmt.Sprint(i)}}
			if parts := strings.Split(text+"///", "/"); text != "" {
				d.Platform = &v1.Platform{OS: parts[0], Architecture: parts[1], Variant: parts[2]}
			}
			all = append(all, d)
		}
		return all
	}
	for _, test := range []struct {
		p    Platform
		in   []v1.Descriptor
		want string
	}{
		{Platform{"linux", "arm64"}, index("linux/amd64", "linux/arm64", "linux/arm64/v8"), "2"},
		{Platform{"linux", "arm64"}, index("linux/arm64/v9", "linux/arm64"), "1"},
		{Platform{"linux", "arm64"}, index("linux/arm64/v9"), "there is no image for linux/arm64 in it, only for linux/arm64/v9"},
		{Platform{"linux", "amd64"}, index("linux/amd64/v3", "linux/amd64"), "1"},
		{Platform{"linux", "amd64"}, index("linux/amd64/v1"), "0"},
		{Platform{"linux", "amd64"}, index("windows/amd64", "unknown/unknown"), "there is no image for linux/amd64 in it, only for windows/amd64"},
		{Platform{"linux", "amd64"}, index(""), "0"},
		{Platform{"linux", "amd64"}, index("", ""), "there is no image for linux/amd64 in it, only for no platform that is named"},
	} {
		digest, err := test.p.pick(test.in)
		if got := digest.Hex; err != nil && err.Error() != test.want || err == nil && got != test.want {
			t.Errorf("%s: %q, %v; want %q", test.p, got, err, test.want)
		}
	}
}
