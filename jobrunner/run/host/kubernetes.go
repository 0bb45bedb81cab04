package host

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// kubernetesSettings selects the cluster whose Pods run the images.
type kubernetesSettings struct {
	Kubeconfig  text            `yaml:"kubeconfig"` // made absolute
	Context     text            `yaml:"context"`
	Namespace   text            `yaml:"namespace"`
	URL         text            `yaml:"url"`
	GPULabel    text            `yaml:"gpu_label"`
	GPUTypes    map[string]text `yaml:"gpu_types"`
	Tolerations []toleration    `yaml:"tolerations"`
	// StorageClass and VolumeAccess apply to the claims of volumes.
	StorageClass text `yaml:"storage_class"`
	VolumeAccess text `yaml:"volume_access"`
	// Reserve says whether a node needs free CPU, memory and disk for a Pod.
	Reserve text `yaml:"reserve"`
}

// Values of reserve. GPUs are always reserved.
const (
	reserveAll  = "all"
	reserveNone = "none"
)

// volumeAccesses are the valid access modes of claims.
var volumeAccesses = []string{"ReadWriteMany", "ReadWriteOnce"}

type toleration struct {
	Key      text `yaml:"key"`
	Operator text `yaml:"operator"`
	Value    text `yaml:"value"`
	Effect   text `yaml:"effect"`
}

// onKubernetes is the value of executor for a cluster. A run that uses one notes it in the register.
const onKubernetes = "kubernetes"

// checkExecutor checks the choice between an engine and a cluster.
func (s *settings) checkExecutor(folder string) error {
	switch {
	case s.Executor.Value == "" && s.Kubernetes == nil:
		return nil
	case s.Executor.Value != "" && s.Executor.Value != onKubernetes:
		return configErrorf(s.Executor.Line, "invalid executor %q: expected %s, or nothing for the engine of this machine", s.Executor.Value, onKubernetes)
	case s.Executor.Value == "":
		return configErrorf(1, "the settings of kubernetes need executor: %s: add it, or remove them", onKubernetes)
	case s.Engine.Value != "":
		return configErrorf(s.Engine.Line, "engine and executor: %s exclude each other: choose one", onKubernetes)
	case s.Kubernetes == nil || s.Kubernetes.URL.Value == "":
		return configErrorf(s.Executor.Line, "kubernetes.url is missing: expected the URL by which Pods reach this jobrunner, such as http://jobrunner.gpucloud.svc:8420")
	}
	k := s.Kubernetes
	if u, err := url.Parse(k.URL.Value); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
		return configErrorf(k.URL.Line, "invalid url %q: expected http:// or https:// with a host and optionally a port", k.URL.Value)
	}
	if a := k.VolumeAccess; a.Value != "" && !slices.Contains(volumeAccesses, a.Value) {
		return configErrorf(a.Line, "invalid volume_access %q: expected %s", a.Value, strings.Join(volumeAccesses, " or "))
	}
	if r := k.Reserve; r.Value != "" && r.Value != reserveAll && r.Value != reserveNone {
		return configErrorf(r.Line, "invalid reserve %q: expected %s or %s", r.Value, reserveAll, reserveNone)
	}
	if name := k.Kubeconfig.Value; name != "" && !filepath.IsAbs(name) {
		k.Kubeconfig.Value = filepath.Join(folder, name)
	}
	for _, r := range s.Rules {
		if c := r.Container; c != nil && (c.Network.Value != "" || c.DiskLimit || len(c.Options) > 0) {
			return configErrorf(r.line, "the rule for %s has settings of a container engine: on Kubernetes only pull counts", r.text)
		}
	}
	return nil
}

// openCluster connects to the cluster, if the file names one.
func (e *Executor) openCluster(ctx context.Context, k *kubernetesSettings, open func(context.Context, run.ClusterConfig) (run.Cluster, error)) error {
	switch {
	case k == nil:
		return nil
	case open == nil:
		return fmt.Errorf("executor: %s is for the program jobrunner: this one runs workers on this machine only", onKubernetes)
	}
	c := run.ClusterConfig{
		Kubeconfig: k.Kubeconfig.Value, Context: k.Context.Value, Namespace: k.Namespace.Value, URL: k.URL.Value, GPULabel: k.GPULabel.Value,
		StorageClass: k.StorageClass.Value, VolumeAccess: k.VolumeAccess.Value, Overcommit: k.Reserve.Value == reserveNone,
		GPUTypes: map[string]string{}, Run: e.register.Run(), Logger: e.log,
	}
	for label, id := range k.GPUTypes {
		c.GPUTypes[label] = id.Value
	}
	for _, t := range k.Tolerations {
		c.Tolerations = append(c.Tolerations, run.Toleration{Key: t.Key.Value, Operator: t.Operator.Value, Value: t.Value.Value, Effect: t.Effect.Value})
	}
	var err error
	e.cluster, err = open(ctx, c)
	return err
}

// Cluster returns the cluster that runs the containers, or nil if they run on this machine.
func (e *Executor) Cluster() run.Cluster { return e.cluster }

// startInCluster starts a worker or a pod as a Pod.
func (e *Executor) startInCluster(settings *containerSettings) func(context.Context, run.Spec) (run.Process, error) {
	return func(ctx context.Context, s run.Spec) (run.Process, error) {
		s.PullAlways = settings.Pull.Value == pullAlways
		if _, err := s.Command(); err != nil {
			return nil, err
		}
		if s.Deployment() == "" { // the next run removes it
			if err := e.register.Note(onKubernetes); err != nil {
				return nil, err
			}
		}
		process, err := e.cluster.Start(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%w (%s)", explain(s, err), e.cluster)
		}
		return process, nil
	}
}
