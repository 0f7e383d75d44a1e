// Package probe asks the health questions of plans on this host, with the thresholds and
// timeouts that people know from the kubelet.
package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply/hostfs"
)

const (
	// probeBody is how much of an answer is read.
	probeBody = 10 << 10
	// probeRedirects is how many redirects on the same host are followed.
	probeRedirects = 10
	// probeAgent begins as servers expect of probes, some of which keep them out of their logs.
	probeAgent = "kube-probe/drover"
	// maxPEM bounds certificates and keys.
	maxPEM = 1 << 20
)

// Prober asks probes. Its methods may be called at the same time.
type Prober struct {
	Host hostfs.FS // where certificates are read from
	// Units says what state a systemd unit is in; nil when there is no systemd to ask.
	Units  func(ctx context.Context, unit string) (activeState, subState string, err error)
	Logger *slog.Logger
	Now    func() time.Time
	notes  notes
}

// Round asks every probe once, all at the same time, and returns the new statuses of all
// of them, and why those that were asked and failed did. applied is when the plan's apply
// ended: a probe whose initial delay is not over keeps its last status. The zero time means
// long ago. Everything that is logged has the attributes about, for example whose probes they are.
func (r *Prober) Round(ctx context.Context, probes map[string]plans.Probe, last map[string]plans.ProbeStatus, applied time.Time, about ...any) (next map[string]plans.ProbeStatus, failures map[string]error) {
	now, log := r.Now(), r.about(about)
	next, failures = map[string]plans.ProbeStatus{}, map[string]error{}
	var mu sync.Mutex // guards next and failures
	var group sync.WaitGroup
	for name, probe := range probes {
		before := last[name]
		mu.Lock()
		next[name] = before
		mu.Unlock()
		if since := now.Sub(applied); since >= 0 && since < probe.InitialDelay() {
			continue
		}
		group.Go(func() {
			err := r.ask(ctx, log, name, probe)
			if ctx.Err() != nil {
				return // the agent stops, which says nothing of the host's health
			}
			log.probe(name, probe, err)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failures[name] = err
			}
			if errors.Is(err, errNoURL) {
				return
			}
			next[name] = judge(probe, before, err == nil)
		})
	}
	group.Wait()
	return next, failures
}

// judge counts one more answer.
func judge(p plans.Probe, s plans.ProbeStatus, success bool) plans.ProbeStatus {
	if success {
		s.SuccessCount = min(s.SuccessCount+1, p.Successes())
		if s.SuccessCount == p.Successes() {
			s.Healthy, s.FailureCount = true, 0
		}
		return s
	}
	s.FailureCount = min(s.FailureCount+1, p.Failures())
	if s.FailureCount == p.Failures() {
		s.Healthy, s.SuccessCount = false, 0
	}
	return s
}

// errNoURL is a probe that cannot be asked at all and so is neither a success nor a failure.
var errNoURL = errors.New("the url is none")

// ask asks once; nil is a success.
func (r *Prober) ask(ctx context.Context, log noteLog, name string, p plans.Probe) error {
	if p.Systemd == nil {
		return r.get(ctx, log, name, p)
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout())
	defer cancel()
	return r.unit(ctx, *p.Systemd)
}

// unit asks for the state of a systemd unit.
func (r *Prober) unit(ctx context.Context, u plans.SystemdUnit) error {
	if r.Units == nil {
		return errors.New("there is no systemd to ask")
	}
	active, sub, err := r.Units(ctx, u.Unit)
	if err != nil {
		return err
	}
	if active != u.Wanted() {
		return fmt.Errorf("%s is %s (%s), not %s", u.Unit, active, sub, u.Wanted())
	}
	return nil
}

// get asks over HTTP.
func (r *Prober) get(ctx context.Context, log noteLog, name string, p plans.Probe) error {
	target, err := url.Parse(p.HTTPGetAction.URL)
	if err != nil || target.Host == "" {
		return errNoURL
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return errNoURL
	}
	request.Header.Set("User-Agent", probeAgent)
	request.Header.Set("Accept", "*/*")
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		TLSClientConfig: r.probeTLS(log, name, p.HTTPGetAction),
	}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: sameHost}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, probeBody)); err != nil {
		return err
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("the answer is %s", answer.Status)
	}
	return nil
}

// sameHost follows redirects within the host that was asked; any other is left as the answer.
func sameHost(next *http.Request, before []*http.Request) error {
	if next.URL.Hostname() != before[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(before) > probeRedirects {
		return fmt.Errorf("more than %d redirects", probeRedirects)
	}
	return nil
}

// probeTLS is made anew each time, as the files may change. A file that cannot be read is logged
// and left out: whether the probe can do without it is for the other side to say.
func (r *Prober) probeTLS(log noteLog, name string, get plans.HTTPGet) *tls.Config {
	if get.Insecure {
		return &tls.Config{InsecureSkipVerify: true} // #nosec G402 -- the plan asks for it, and nothing is sent but the question
	}
	config := &tls.Config{}
	if get.ClientCert != "" && get.ClientKey != "" {
		certificate, err := r.keyPair(get)
		if err == nil {
			config.Certificates = []tls.Certificate{certificate}
		}
		log.note("probe/"+name+"/client/"+get.ClientCert, err, "client certificate of a probe cannot be used", "probe", name, "certificate", get.ClientCert)
	}
	if get.CACert != "" {
		pool, err := r.pool(get.CACert)
		config.RootCAs = pool
		log.note("probe/"+name+"/ca/"+get.CACert, err, "authority of a probe cannot be used", "probe", name, "caCert", get.CACert)
	}
	return config
}

func (r *Prober) keyPair(get plans.HTTPGet) (tls.Certificate, error) {
	certificate, err := r.Host.ReadFile(get.ClientCert, maxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := r.Host.ReadFile(get.ClientKey, maxPEM)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
}

// pool is the system's authorities and the one in the file; nil, which is the system's, after an error.
func (r *Prober) pool(path string) (*x509.CertPool, error) {
	pem, err := r.Host.ReadFile(path, maxPEM)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("there is no certificate in it")
	}
	return pool, nil
}

// probe logs how a probe goes. Several plans may have a probe of one name.
func (l noteLog) probe(name string, p plans.Probe, err error) {
	about, target := "url", withoutPassword(p.HTTPGetAction.URL)
	if p.Systemd != nil {
		about, target = "unit", p.Systemd.Unit
	}
	l.note("probe/"+name+"/"+target, err, "probe fails", "probe", name, about, target)
}

func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "(no URL)"
	}
	return u.Redacted()
}
