// Package kubernetes runs workers and pods as Pods of a Kubernetes cluster. It creates a Pod, follows it
// and removes it. The cluster does the rest: it schedules Pods, assigns devices and manages nodes.
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// Labels of the objects that a jobrunner creates.
const (
	managedBy     = "app.kubernetes.io/managed-by"
	manager       = "gpucloud-jobrunner"
	runLabel      = "gpucloud/run"
	endpointLabel = "gpucloud/endpoint"
	workerLabel   = "gpucloud/worker"

	folderLabel        = "gpucloud/deployment" // id of the data folder whose next run adopts the Pod
	podLabel           = "gpucloud/pod"
	podGenerationLabel = "gpucloud/pod-run"
)

const (
	startTimeout  = 10 * time.Second // for the cluster's first response
	removeTimeout = 60 * time.Second
	outageEnd     = 5 * time.Minute          // an outage is over after this time without a watch error; retries are less than two minutes apart
	gpuLabel      = "nvidia.com/gpu.product" // default of the node label that names the GPU type
)

// client has the parts of the cluster's client that this package needs. The whole client, with
// informers of all kinds, adds a quarter to the time of a build.
type client struct {
	core      coreclient.CoreV1Interface
	apps      appsclient.AppsV1Interface
	discovery discovery.ServerVersionInterface
}

type Cluster struct {
	run.ClusterConfig
	namespace     string
	self          string // name of this process's own Pod, or ""
	client        client
	version       string
	life          context.Context // ends with Close
	stop          context.CancelFunc
	inventory     *inventory // nil before Inventory is called
	owners        owners
	removeTimeout time.Duration // for a removal with a waiting caller

	watchMu        sync.Mutex // guards the next three; held while a watch starts
	watches        sync.WaitGroup
	folderID       string      // of the jobrunner whose pods are watched; "" for none
	persistentPods cache.Store // the Kubernetes Pods that run that jobrunner's pods

	mu        sync.Mutex
	processes map[string]*process // by the Pod's name
}

var _ run.Cluster = (*Cluster)(nil)

// client-go's own log has another format, and repeats what this package logs.
func init() { klog.SetSlogLogger(slog.New(slog.DiscardHandler)) }

// Open connects to the cluster. The error says what can't be reached, or which permission is missing.
func Open(ctx context.Context, c run.ClusterConfig) (run.Cluster, error) {
	settings, namespace, err := load(c)
	if err != nil {
		return nil, fmt.Errorf("the configuration of the Kubernetes cluster: %w", err)
	}
	settings.UserAgent = manager
	// The client has no rate limit: a jobrunner starts workers in bursts, and the API server limits their rate.
	settings.QPS, settings.Burst = -1, 0
	api, err := newClient(settings)
	if err != nil {
		return nil, fmt.Errorf("the configuration of the Kubernetes cluster: %w", err)
	}
	return open(ctx, c, namespace, findSelf(), api)
}

func newClient(settings *rest.Config) (c client, err error) {
	if c.core, err = coreclient.NewForConfig(settings); err != nil {
		return c, err
	}
	if c.apps, err = appsclient.NewForConfig(settings); err != nil {
		return c, err
	}
	c.discovery, err = discovery.NewDiscoveryClientForConfig(settings)
	return c, err
}

// load loads the configuration from the first of these that exists: the named file, KUBECONFIG, the user's file, or the
// service account of this process's Pod.
func load(c run.ClusterConfig) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig.Value
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.Context.Value, Context: clientcmdapi.Context{Namespace: c.Namespace.Value}}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	settings, err := loader.ClientConfig()
	if err != nil {
		return nil, "", err
	}
	namespace, _, err := loader.Namespace()
	return settings, namespace, err
}

func open(ctx context.Context, c run.ClusterConfig, namespace, self string, api client) (*Cluster, error) {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.GPULabel.Value, c.VolumeAccess.Value = cmp.Or(c.GPULabel.Value, gpuLabel), cmp.Or(c.VolumeAccess.Value, string(core.ReadWriteMany))
	cluster := &Cluster{ClusterConfig: c, namespace: namespace, self: self, client: api, processes: map[string]*process{}, removeTimeout: removeTimeout}
	cluster.life, cluster.stop = context.WithCancel(context.WithoutCancel(ctx))
	version, err := api.discovery.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("the Kubernetes cluster does not answer: %w", err)
	}
	cluster.version = version.GitVersion
	cluster.findOwners(ctx)
	cluster.watchMu.Lock()
	defer cluster.watchMu.Unlock()
	if _, err := cluster.watch(ctx, runLabel, c.Run); err != nil {
		cluster.stop()
		return nil, err
	}
	return cluster, nil
}

// watch watches the Pods with a label. The caller holds watchMu.
func (c *Cluster) watch(ctx context.Context, label, value string) (cache.Store, error) {
	informer := newInformer(&core.Pod{}, c.client.core.Pods(c.namespace), label+"="+value)
	return informer.GetStore(), start(ctx, c, informer, "the Pods of the namespace "+c.namespace, c.update)
}

func cachedObjects[T any](store cache.Store) (all []*T) {
	for _, object := range store.List() {
		all = append(all, object.(*T))
	}
	return all
}

// newInformer returns an informer of the kind's objects with a label, or of all objects for "".
func newInformer[L runtime.Object](kind runtime.Object, api interface {
	List(context.Context, meta.ListOptions) (L, error)
	Watch(context.Context, meta.ListOptions) (watch.Interface, error)
}, label string) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o meta.ListOptions) (runtime.Object, error) {
			o.LabelSelector = label
			return api.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o meta.ListOptions) (watch.Interface, error) {
			o.LabelSelector = label
			return api.Watch(ctx, o)
		},
	}, kind, 0, nil)
}

// start starts an informer that passes each change to update, and waits until it has read the existing objects, at
// most for startTimeout. For a new object before is nil, for a deleted object after is nil. The caller holds watchMu.
func start[T any](ctx context.Context, c *Cluster, informer cache.SharedIndexInformer, objects string, update func(before, after *T)) error {
	var mu sync.Mutex
	var lastErr error
	var lastErrAt time.Time
	err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(lastErrAt) > outageEnd { // the informer retries
			c.Logger.Warn(objects+" can't be watched: trying again", "error", err)
		}
		lastErr, lastErrAt = err, time.Now()
	})
	if err != nil {
		return err
	}
	pass := func(before, after any) {
		if tombstone, ok := before.(cache.DeletedFinalStateUnknown); ok {
			before = tombstone.Obj
		}
		b, _ := before.(*T)
		a, _ := after.(*T)
		update(b, a)
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { pass(nil, o) }, UpdateFunc: pass, DeleteFunc: func(o any) { pass(o, nil) },
	})
	if err != nil {
		return err
	}
	life, stop := context.WithCancel(c.life)
	c.watches.Go(func() {
		defer stop()
		informer.RunWithContext(life)
	})
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	stop()
	mu.Lock()
	defer mu.Unlock()
	return fmt.Errorf("%s can't be listed and watched within %s: %w", objects, startTimeout, errors.Join(lastErr, ctx.Err()))
}

// update passes a change of a Pod to its process.
func (c *Cluster) update(before, after *core.Pod) {
	pod := cmp.Or(after, before)
	c.mu.Lock()
	p := c.processes[pod.Name]
	c.mu.Unlock()
	if p != nil {
		p.setLatest(pod, after == nil)
	}
}

// Close implements run.Cluster. All workers and pods must have ended.
func (c *Cluster) Close() (left bool) {
	c.stop()
	c.watchMu.Lock()
	defer c.watchMu.Unlock()
	c.watches.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.processes) > 0
}

func (c *Cluster) String() string {
	return fmt.Sprintf("Kubernetes %s, namespace %s", c.version, c.namespace)
}

// RemoveRun removes the objects of another run of the jobrunner, and returns the number of its Pods.
func (c *Cluster) RemoveRun(ctx context.Context, runID string) (removed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	selector := meta.ListOptions{LabelSelector: runLabel + "=" + runID}
	api := c.client.core
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
