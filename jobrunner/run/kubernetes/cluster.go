// Package kubernetes runs workers and pods as Pods of a Kubernetes cluster. Where a Pod runs,
// which device it gets and what happens to a node is the cluster's business: this
// package asks for a Pod, follows it, and removes it.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	client "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// Config says which cluster, and where in it.
type Config struct {
	// Kubeconfig is a file; "": the one of the cluster that this process runs in, else
	// KUBECONFIG or the user's own.
	Kubeconfig string
	Context    string // of the file; "": its current one
	Namespace  string // "": that of the context or of this process, else default
	// URL is how Pods reach this jobrunner, without a path.
	URL string
	// GPULabel is the label of nodes that names the product of their GPUs, as NVIDIA's
	// GPU feature discovery writes it; "": its own.
	GPULabel string
	// GPUTypes are the catalog's ids of GPU types by the label's value, where it is not
	// the product's name.
	GPUTypes map[string]string
	// Tolerations are given to every Pod.
	Tolerations []core.Toleration
	// StorageClass is that of the claims of volumes; "": the cluster's default.
	StorageClass string
	// VolumeAccess is how network volumes are mounted; "": by Pods of several nodes.
	VolumeAccess core.PersistentVolumeAccessMode
	// Overcommit limits what Pods use of CPU, memory and disk, and reserves none of it.
	Overcommit bool
	// Self is the name of the Pod that this process runs in; "": none, or unknown.
	Self   string
	Run    string // id of this run of the jobrunner
	Logger *slog.Logger
}

// Labels of every object that a jobrunner makes.
const (
	managedBy     = "app.kubernetes.io/managed-by"
	manager       = "gpucloud-jobrunner"
	runLabel      = "gpucloud/run"
	endpointLabel = "gpucloud/endpoint"
	workerLabel   = "gpucloud/worker"

	deploymentLabel = "gpucloud/deployment"
	podLabel        = "gpucloud/pod"
	podRunLabel     = "gpucloud/pod-run"
)

const (
	startTimeout  = 10 * time.Second // for the cluster's first answer
	removeTimeout = 60 * time.Second
	gpuLabel      = "nvidia.com/gpu.product"
)

// Cluster is a connection to a cluster.
type Cluster struct {
	Config
	client    client.Interface
	version   string
	stop      chan struct{}
	inventory *inventory // nil before it is asked for
	owners    owners
	patience  time.Duration // with a removal that somebody waits for

	watching   sync.Mutex // of what follows; held while a watch begins
	informers  []informers.SharedInformerFactory
	deployment string        // whose pods are followed; "": none yet
	lasting    cache.Indexer // their Pods

	mu        sync.Mutex
	processes map[string]*process // by the Pod's name
}

// Open connects to the cluster, and removes nothing. The error says what can't be
// reached, or which right is missing.
func Open(ctx context.Context, c Config) (*Cluster, error) {
	settings, namespace, err := load(c)
	if err != nil {
		return nil, fmt.Errorf("the configuration of the Kubernetes cluster: %w", err)
	}
	c.Namespace = namespace
	settings.UserAgent = manager
	// A jobrunner starts workers in bursts: the cluster's own priorities bound it.
	settings.QPS, settings.Burst = -1, 0
	api, err := client.NewForConfig(settings)
	if err != nil {
		return nil, fmt.Errorf("the configuration of the Kubernetes cluster: %w", err)
	}
	return open(ctx, c, api)
}

// load finds the configuration: a file that is named, that of the Pod this process is in,
// or the user's.
func load(c Config) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.Context}
	found := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	settings, err := found.ClientConfig() // in a Pod that of its service account
	if err != nil {
		return nil, "", err
	}
	namespace := c.Namespace
	if namespace == "" {
		if namespace, _, err = found.Namespace(); err != nil {
			return nil, "", err
		}
	}
	return settings, namespace, nil
}

func open(ctx context.Context, c Config, api client.Interface) (*Cluster, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.GPULabel == "" {
		c.GPULabel = gpuLabel
	}
	if c.VolumeAccess == "" {
		c.VolumeAccess = core.ReadWriteMany
	}
	cluster := &Cluster{Config: c, client: api, stop: make(chan struct{}), processes: map[string]*process{}, patience: removeTimeout}
	version, err := api.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("the Kubernetes cluster does not answer: %w", err)
	}
	cluster.version = version.GitVersion
	cluster.findOwners(ctx)
	cluster.watching.Lock()
	defer cluster.watching.Unlock()
	if _, err := cluster.watch(ctx, runLabel, c.Run); err != nil {
		close(cluster.stop)
		return nil, err
	}
	return cluster, nil
}

// watch follows the Pods with a label. It is called with watching held.
func (c *Cluster) watch(ctx context.Context, label, value string) (cache.Indexer, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithNamespace(c.Namespace),
		informers.WithTweakListOptions(func(o *meta.ListOptions) { o.LabelSelector = label + "=" + value }))
	informer := factory.Core().V1().Pods().Informer()
	var mu sync.Mutex
	var refused error // the last one
	err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		mu.Lock()
		defer mu.Unlock()
		if refused == nil { // it is tried again until the cluster answers
			c.Logger.Warn("the Pods of the Kubernetes cluster can't be watched: trying again", "error", err)
		}
		refused = err
	})
	if err != nil {
		return nil, err
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { c.tell(o, false) },
		UpdateFunc: func(_, o any) { c.tell(o, false) },
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			c.tell(o, true)
		},
	})
	if err != nil {
		return nil, err
	}
	factory.Start(c.stop)
	c.informers = append(c.informers, factory)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		mu.Lock()
		defer mu.Unlock()
		return nil, fmt.Errorf("the Pods of the namespace %s can't be watched within %s: %w", c.Namespace, startTimeout, errors.Join(refused, ctx.Err()))
	}
	return informer.GetIndexer(), nil
}

// tell tells a process of its Pod.
func (c *Cluster) tell(object any, deleted bool) {
	pod, ok := object.(*core.Pod)
	if !ok {
		return
	}
	c.mu.Lock()
	p := c.processes[pod.Name]
	c.mu.Unlock()
	if p != nil {
		p.see(pod, deleted)
	}
}

// Close ends the connection. All workers and pods must have ended.
func (c *Cluster) Close() {
	close(c.stop)
	c.watching.Lock()
	defer c.watching.Unlock()
	for _, factory := range c.informers {
		factory.Shutdown()
	}
}

// untilClosed is a context that ends with the connection.
func (c *Cluster) untilClosed() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-c.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// String says which cluster it is, for people.
func (c *Cluster) String() string {
	return fmt.Sprintf("Kubernetes %s, namespace %s", c.version, c.Namespace)
}

// RemoveRun removes what another run of the jobrunner left, and answers how many Pods
// those were.
func (c *Cluster) RemoveRun(ctx context.Context, run string) (removed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	these := meta.ListOptions{LabelSelector: runLabel + "=" + run}
	api := c.client.CoreV1()
	pods, err := api.Pods(c.Namespace).List(ctx, these)
	if err != nil {
		return 0, fmt.Errorf("the Pods of the run %s: %w", run, err)
	}
	for _, pod := range pods.Items {
		if err := api.Pods(c.Namespace).Delete(ctx, pod.Name, meta.DeleteOptions{GracePeriodSeconds: &shortestGrace}); err != nil && !kerrors.IsNotFound(err) {
			return removed, fmt.Errorf("the Pod %s of the run %s: %w", pod.Name, run, err)
		}
		removed++
	}
	secrets, err := api.Secrets(c.Namespace).List(ctx, these)
	if err != nil {
		return removed, fmt.Errorf("the Secrets of the run %s: %w", run, err)
	}
	for _, secret := range secrets.Items {
		if err := api.Secrets(c.Namespace).Delete(ctx, secret.Name, meta.DeleteOptions{}); err != nil && !kerrors.IsNotFound(err) {
			return removed, fmt.Errorf("the Secret %s of the run %s: %w", secret.Name, run, err)
		}
	}
	return removed, nil
}
