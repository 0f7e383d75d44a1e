package main

// The ingress controller, as a reverse proxy in Go where the original writes the config of an nginx, and the backend that
// answers where no ingress fits.

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type controller struct {
	api
	namespace, class, election, backend string
	withoutClass                        bool
	rules                               atomic.Pointer[[]rule]
}

// rule leads requests to a Service.
type rule struct{ host, path, to string }

func ingressController(ctx context.Context, args []string) error {
	c := &controller{namespace: os.Getenv("POD_NAMESPACE")}
	flags := flag.NewFlagSet("nginx-ingress-controller", flag.ContinueOnError)
	flags.StringVar(&c.backend, "default-backend-service", "", "")
	flags.StringVar(&c.election, "election-id", "", "")
	flags.StringVar(&c.class, "controller-class", "", "")
	flags.BoolVar(&c.withoutClass, "watch-ingress-without-class", false, "")
	var maps []*string
	for _, name := range []string{"configmap", "tcp-services-configmap", "udp-services-configmap"} {
		maps = append(maps, flags.String(name, "", ""))
	}
	flags.String("annotations-prefix", "", "")
	port, tlsPort := flags.Int("http-port", 80, ""), flags.Int("https-port", 443, "")
	webhook, certificate, key := flags.String("validating-webhook", "", ""), flags.String("validating-webhook-certificate", "", ""), flags.String("validating-webhook-key", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if c.namespace == "" || os.Getenv("POD_NAME") == "" {
		return errors.New("the variables POD_NAME and POD_NAMESPACE are empty")
	}
	var err error
	if c.api, err = inCluster(); err != nil {
		return err
	}
	ready := &atomic.Bool{}
	serve(ctx, ":10254", ready, "/healthz")
	listen(ctx, ":"+strconv.Itoa(*port), c)
	listen(ctx, ":"+strconv.Itoa(*tlsPort), c) // without TLS: certificates are no matter of the manifests
	if err := review(ctx, *webhook, *certificate, *key); err != nil {
		return err
	}
	checked := false
	return tend(ctx, ready, func(ctx context.Context) error {
		if !checked {
			if err := c.check(ctx, maps); err != nil {
				return err
			}
			checked = true
		}
		return c.look(ctx)
	})
}

// check asks for what the controller needs once.
func (c *controller) check(ctx context.Context, maps []*string) error {
	for _, name := range maps {
		if namespace, name, _ := strings.Cut(*name, "/"); name != "" {
			if _, err := c.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
	}
	if namespace, name, _ := strings.Cut(c.backend, "/"); name != "" {
		if _, err := c.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	const read = "get list watch"
	return c.may(ctx, []right{
		{"list watch", "", "configmaps endpoints nodes pods secrets namespaces", ""}, {"get", "", "nodes", ""}, {read, "", "services", ""},
		{read, "networking.k8s.io", "ingresses ingressclasses", ""}, {"create patch", "", "events", ""}, {"update", "networking.k8s.io", "ingresses/status", ""},
		{"list watch get", "discovery.k8s.io", "endpointslices", ""}, {"get create update", "coordination.k8s.io", "leases", c.namespace},
	})
}

// look reads the ingresses, and gives them their addresses where this pod leads.
func (c *controller) look(ctx context.Context) error {
	classes, err := c.NetworkingV1().IngressClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	own := map[string]bool{}
	for _, class := range classes.Items {
		own[class.Name] = class.Spec.Controller == c.class
	}
	all, err := c.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	leads, address, err := c.leads(ctx)
	if err != nil {
		return err
	}
	var rules []rule
	for i := range all.Items {
		in := &all.Items[i]
		if name := in.Spec.IngressClassName; name == nil && !c.withoutClass || name != nil && !own[*name] {
			continue
		}
		rules = append(rules, rulesOf(in)...)
		if at := in.Status.LoadBalancer.Ingress; leads && (len(at) != 1 || at[0].IP != address) {
			in.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: address}}
			if _, err := c.NetworkingV1().Ingresses(in.Namespace).UpdateStatus(ctx, in, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
				return err
			}
		}
	}
	c.rules.Store(&rules)
	return nil
}

func rulesOf(in *networkingv1.Ingress) []rule {
	var rules []rule
	for _, r := range in.Spec.Rules {
		if r.HTTP == nil {
			continue
		}
		for _, p := range r.HTTP.Paths {
			if s := p.Backend.Service; s != nil {
				rules = append(rules, rule{r.Host, p.Path, fmt.Sprintf("%s.%s.svc.cluster.local:%d", s.Name, in.Namespace, s.Port.Number)})
			}
		}
	}
	return rules
}

// leads takes the Lease when it was not renewed for a while. The address is that of this pod's node.
func (c *controller) leads(ctx context.Context) (bool, string, error) {
	name := os.Getenv("POD_NAME")
	pod, err := c.CoreV1().Pods(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, "", err
	}
	leases, now := c.CoordinationV1().Leases(c.namespace), metav1.NowMicro()
	lease, err := leases.Get(ctx, c.election, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: c.election}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: &now}}, metav1.CreateOptions{})
		return err == nil, pod.Status.HostIP, err
	}
	if err != nil {
		return false, "", err
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != name && time.Since(lease.Spec.RenewTime.Time) < 15*time.Second {
		return false, "", nil
	}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &name, &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return false, "", nil
	}
	return err == nil, pod.Status.HostIP, err
}

func (c *controller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	to := ""
	if rules := c.rules.Load(); rules != nil {
		for _, rule := range *rules {
			if (rule.host == "" || rule.host == host) && strings.HasPrefix(r.URL.Path, rule.path) {
				to = rule.to
			}
		}
	}
	if namespace, name, _ := strings.Cut(c.backend, "/"); to == "" && name != "" {
		to = name + "." + namespace + ".svc.cluster.local:80"
	}
	if to == "" {
		http.Error(w, "no ingress fits", http.StatusNotFound)
		return
	}
	httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: to}).ServeHTTP(w, r)
}

// review answers the API server's question about each ingress. One for the host refused.example.com is refused.
func review(ctx context.Context, address, certificate, key string) error {
	if address == "" {
		return nil
	}
	for _, path := range []string{certificate, key} {
		if _, err := os.Stat(path); err != nil {
			return err
		}
	}
	server := &http.Server{Addr: address, ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked admissionv1.AdmissionReview
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err == nil {
			err = json.Unmarshal(body, &asked)
		}
		if err != nil || asked.Request == nil {
			http.Error(w, "this is not an AdmissionReview", http.StatusBadRequest)
			return
		}
		asked.Response = &admissionv1.AdmissionResponse{UID: asked.Request.UID, Allowed: true}
		if strings.Contains(string(asked.Request.Object.Raw), "refused.example.com") {
			asked.Response.Allowed, asked.Response.Result = false, &metav1.Status{Message: "refused by the stand-in of the ingress controller"}
		}
		asked.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(asked)
	})}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.ListenAndServeTLS(certificate, key); err != nil && !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}()
	return nil
}

func defaultBackend(ctx context.Context, _ []string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "default backend - 404", http.StatusNotFound)
	})
	listen(ctx, ":8080", mux)
	<-ctx.Done()
	return nil
}
