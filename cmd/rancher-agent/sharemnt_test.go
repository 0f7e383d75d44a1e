package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShareMntAsServersStartIt(t *testing.T) {
	const command = `docker run -d --privileged --restart=unless-stopped --net=host -v /etc/kubernetes:/etc/kubernetes -v /var/run:/var/run ` +
		`-e "HTTPS_PROXY=http://proxy:3128" --env=NO_PROXY=10.0.0.0/8 rancher/rancher-agent:v2.8.5 --server https://rancher.example.com --token secret --ca-checksum abc --no-register --only-write-certs --node-name n1`
	got, wanted, err := readShareMnt([]string{"share-root.sh", command, "/var/lib/kubelet", "/var/lib/rancher"})
	if err != nil || !wanted {
		t.Fatal(wanted, err)
	}
	want := shareMnt{
		flags: strings.Fields("--server https://rancher.example.com --token secret --ca-checksum abc --no-register --only-write-certs --node-name n1"),
		env:   map[string]string{"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "10.0.0.0/8"},
		paths: []string{"/var/lib/kubelet", "/var/lib/rancher"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(shareMnt{})); diff != "" {
		t.Error(diff)
	}
	if _, wanted, err := readShareMnt([]string{"echo", "share-root.sh"}); wanted || err != nil {
		t.Errorf("another command: %t, %v", wanted, err)
	}
}

func TestShareMntRefused(t *testing.T) {
	for want, args := range map[string][]string{
		"needs the command":    {shareRoot},
		"has no --server":      {shareRoot, "docker run image --token secret"},
		"ends within quotes":   {shareRoot, `docker run -e "A=secret --server https://h`},
		"not an absolute path": {shareRoot, "docker run image --server https://h --token secret", "relative"},
	} {
		if _, wanted, err := readShareMnt(args); !wanted || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %t, %v", args, wanted, err)
		}
	}
}

func TestWordsOfACommand(t *testing.T) {
	for command, want := range map[string][]string{
		"": nil, "  a  b ": {"a", "b"}, `a "b c" 'd "e' f\ g`: {"a", "b c", `d "e`, "f g"}, `"" x`: {"", "x"}, `a"b"c`: {"abc"}, `$(x) ;`: {"$(x)", ";"}, `'a\b'`: {`a\b`},
	} {
		if got, err := split1(command); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q: %q, %v", command, got, err)
		}
	}
}
