//go:build e2e && e2e_full

package e2e

// A server whose disk gets full while it works: it says so, and with room again it has all that it had acknowledged.

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestAFullDiskLosesNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	h := serverHost(ctx, t)
	sh := func(script string) string {
		t.Helper()
		out, err := h.Sh(ctx, "export DROVER_DATA_DIR=/srv/small/data; "+script)
		if err != nil {
			log, _ := h.Sh(ctx, "journalctl --no-pager -o cat -u small | tail -n 20; df /srv/small")
			t.Fatalf("%s: %v: %s\n%s", script, err, out, log)
		}
		return out
	}
	sh(`mkdir -p /srv/small && mount -t tmpfs -o size=400m tmpfs /srv/small
systemd-run -q --unit=small -p Restart=always -p RestartSec=2 drover server --data-dir /srv/small/data --listen 127.0.0.1:8443 --server-url https://127.0.0.1:8443
until drover fleets ls >/dev/null 2>&1; do sleep 0.2; done
head -c 600000 /dev/urandom | base64 -w 76 | sed 's/^/    /' >/root/large`)
	// Documents of 800 KB, each noted once it is acknowledged, until one is refused.
	said := sh(`head -c 1g /dev/zero >/srv/small/data/audit-of-others 2>/dev/null || true
i=0
while test $i -lt 400; do
	i=$((i + 1))
	{ echo "apiVersion: v1"; echo "kind: Secret"; echo "metadata: {name: s-$i, namespace: fleet-default}"; echo "type: Opaque"; echo "data:"; echo "  large: |"; cat /root/large; } >/root/document
	if drover apply -f /root/document >/root/said 2>&1; then echo s-$i >>/root/acknowledged; else cat /root/said; exit 0; fi
done`)
	t.Logf("after %s documents: %s", strings.TrimSpace(sh("wc -l </root/acknowledged || true")), said)
	if strings.TrimSpace(said) == "" {
		t.Fatal("400 documents went into a disk that is full")
	}
	log := sh("journalctl --no-pager -o cat -u small | tail -n 30")
	if !strings.Contains(log, "no space left on device") {
		t.Errorf("the log does not say why:\n%s", log)
	}
	t.Log(log)
	sh(`rm /srv/small/data/audit-of-others
until drover fleets ls >/dev/null 2>&1; do sleep 0.5; done
token=$(cat /srv/small/data/admin-token)
for name in $(cat /root/acknowledged); do
	curl -sfk -o /dev/null -H "Authorization: Bearer $token" https://127.0.0.1:8443/api/v1/namespaces/fleet-default/secrets/$name || { echo $name is lost; exit 1; }
done
drover fleets join-command afterwards >/dev/null`)
}
