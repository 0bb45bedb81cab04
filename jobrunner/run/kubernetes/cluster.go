// Package kubernetes runs workers and pods as Pods of a Kubernetes cluster. It creates a Pod,
// follows it and removes it. The cluster does the rest: it schedules Pods, assigns devices
// and manages nodes.
package kubernetes

import (
	"cmp"
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
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// Labels of the objects that a jobrunner creates.
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
	startTimeout  = 10 * time.Second // for the cluster's first response
	removeTimeout = 60 * time.Second
	gpuLabel      = "nvidia.com/gpu.product"
)

// Cluster is a connection to a cluster.
type Cluster struct {
	run.ClusterConfig
	namespace     string
	self          string // name of this process's own Pod, or ""
	client        client.Interface
	version       string
	life          context.Context // ends with Close
	stop          context.CancelFunc
	inventory     *inventory // nil before Inventory is called
	owners        owners
	removeTimeout time.Duration // for a removal with a waiting caller

	watching       sync.Mutex // guards the next three; held while a watch starts
	informers      []informers.SharedInformerFactory
	deployment     string                     // whose pods are watched; "" for none
	deploymentPods listers.PodNamespaceLister // Pods of the deployment

	mu        sync.Mutex
	processes map[string]*process // by the Pod's name
}

var _ run.Cluster = (*Cluster)(nil)

// Open connects to the cluster. The error says what can't be reached, or which permission is
// missing.
func Open(ctx context.Context, c run.ClusterConfig) (run.Cluster, error) {
	settings, namespace, err := load(c)
	if err != nil {
		return nil, fmt.Errorf("the configuration of the Kubernetes cluster: %w", err)
	}
	settings.UserAgent = manager
	// A jobrunner starts workers in bursts. The API server limits its rate.
	settings.QPS, settings.Burst = -1, 0
	api, err := client.NewForConfig(settings)
	if err != nil {
		return nil, fmt.Errorf("the configuration of the Kubernetes cluster: %w", err)
	}
	return open(ctx, c, namespace, findSelf(), api)
}

// load loads the configuration: the named file, the service account of this process's Pod,
// or the user's file.
func load(c run.ClusterConfig) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig.Value
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.Context.Value}
	found := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	settings, err := found.ClientConfig()
	if err != nil {
		return nil, "", err
	}
	namespace := c.Namespace.Value
	if namespace == "" {
		if namespace, _, err = found.Namespace(); err != nil {
			return nil, "", err
		}
	}
	return settings, namespace, nil
}

func open(ctx context.Context, c run.ClusterConfig, namespace, self string, api client.Interface) (*Cluster, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.GPULabel.Value, c.VolumeAccess.Value = cmp.Or(c.GPULabel.Value, gpuLabel), cmp.Or(c.VolumeAccess.Value, string(core.ReadWriteMany))
	cluster := &Cluster{ClusterConfig: c, namespace: namespace, self: self, client: api, processes: map[string]*process{}, removeTimeout: removeTimeout}
	cluster.life, cluster.stop = context.WithCancel(context.WithoutCancel(ctx))
	version, err := api.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("the Kubernetes cluster does not answer: %w", err)
	}
	cluster.version = version.GitVersion
	cluster.findOwners(ctx)
	cluster.watching.Lock()
	defer cluster.watching.Unlock()
	if _, err := cluster.watch(ctx, runLabel, c.Run); err != nil {
		cluster.stop()
		return nil, err
	}
	return cluster, nil
}

// watch watches the Pods with a label. It is called with watching held.
func (c *Cluster) watch(ctx context.Context, label, value string) (listers.PodNamespaceLister, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithNamespace(c.namespace),
		informers.WithTweakListOptions(func(o *meta.ListOptions) { o.LabelSelector = label + "=" + value }))
	pods := factory.Core().V1().Pods()
	informer := pods.Informer()
	var mu sync.Mutex
	var lastErr error
	err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		mu.Lock()
		defer mu.Unlock()
		if lastErr == nil { // the informer retries
			c.Logger.Warn("the Pods of the Kubernetes cluster can't be watched: trying again", "error", err)
		}
		lastErr = err
	})
	if err != nil {
		return nil, err
	}
	if synced, err := start(ctx, c, factory, informer, c.update); err != nil {
		return nil, err
	} else if !synced {
		mu.Lock()
		defer mu.Unlock()
		return nil, fmt.Errorf("the Pods of the namespace %s can't be watched within %s: %w", c.namespace, startTimeout, errors.Join(lastErr, ctx.Err()))
	}
	return pods.Lister().Pods(c.namespace), nil
}

// start passes each change of the objects to update, and reports whether it has read the existing
// objects within startTimeout. before or after is nil if the object didn't exist. It is called with watching held.
func start[T any](ctx context.Context, c *Cluster, factory informers.SharedInformerFactory, informer cache.SharedIndexInformer, update func(before, after *T)) (synced bool, err error) {
	pass := func(before, after any) {
		if last, ok := before.(cache.DeletedFinalStateUnknown); ok {
			before = last.Obj
		}
		b, _ := before.(*T)
		a, _ := after.(*T)
		update(b, a)
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { pass(nil, o) }, UpdateFunc: pass, DeleteFunc: func(o any) { pass(o, nil) },
	})
	if err != nil {
		return false, err
	}
	factory.Start(c.life.Done())
	c.informers = append(c.informers, factory)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return cache.WaitForCacheSync(ctx.Done(), informer.HasSynced), nil
}

// update passes a change of a Pod to its process.
func (c *Cluster) update(before, after *core.Pod) {
	pod := cmp.Or(after, before)
	c.mu.Lock()
	p := c.processes[pod.Name]
	c.mu.Unlock()
	if p != nil {
		p.set(pod, after == nil)
	}
}

// Close ends the connection. All workers and pods must have ended.
func (c *Cluster) Close() {
	c.stop()
	c.watching.Lock()
	defer c.watching.Unlock()
	for _, factory := range c.informers {
		factory.Shutdown()
	}
}

// String returns a human-readable description of the cluster.
func (c *Cluster) String() string {
	return fmt.Sprintf("Kubernetes %s, namespace %s", c.version, c.namespace)
}

// RemoveRun removes the objects of another run of the jobrunner, and returns the number of
// its Pods.
func (c *Cluster) RemoveRun(ctx context.Context, runID string) (removed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	selector := meta.ListOptions{LabelSelector: runLabel + "=" + runID}
	api := c.client.CoreV1()
	pods, err := api.Pods(c.namespace).List(ctx, selector)
	if err != nil {
		return 0, fmt.Errorf("the Pods of the run %s: %w", runID, err)
	}
	for _, pod := range pods.Items {
		if err := api.Pods(c.namespace).Delete(ctx, pod.Name, meta.DeleteOptions{GracePeriodSeconds: &shortestGrace}); err != nil && !kerrors.IsNotFound(err) {
			return removed, fmt.Errorf("the Pod %s of the run %s: %w", pod.Name, runID, err)
		}
		removed++
	}
	secrets, err := api.Secrets(c.namespace).List(ctx, selector)
	if err != nil {
		return removed, fmt.Errorf("the Secrets of the run %s: %w", runID, err)
	}
	for _, secret := range secrets.Items {
		if err := api.Secrets(c.namespace).Delete(ctx, secret.Name, meta.DeleteOptions{}); err != nil && !kerrors.IsNotFound(err) {
			return removed, fmt.Errorf("the Secret %s of the run %s: %w", secret.Name, runID, err)
		}
	}
	return removed, nil
}
