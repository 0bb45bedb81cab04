package host

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

// volumeAccesses are the valid access modes of claims.
var volumeAccesses = []string{"ReadWriteMany", "ReadWriteOnce"}

// onKubernetes is the value of the setting executor that selects a cluster. The register has it as a note if this
// jobrunner has started Pods.
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
	if r := k.Reserve; r.Value != "" && r.Value != run.ReserveAll && r.Value != run.ReserveNone {
		return configErrorf(r.Line, "invalid reserve %q: expected %s or %s", r.Value, run.ReserveAll, run.ReserveNone)
	}
	if name := k.Kubeconfig.Value; name != "" {
		k.Kubeconfig.Value = absolute(folder, name)
	}
	for _, r := range s.Rules {
		if c := r.Container; c != nil && (c.Network.Value != "" || c.DiskLimit || len(c.Options) > 0) {
			return configErrorf(r.line, "the rule for %s has settings of a container engine: on Kubernetes only pull counts", r.text)
		}
	}
	return nil
}

// openCluster connects to the cluster, if the file names one.
func (e *Executor) openCluster(ctx context.Context, k *run.ClusterSettings, open func(context.Context, run.ClusterConfig) (run.Cluster, error)) error {
	switch {
	case k == nil:
		return nil
	case open == nil:
		return fmt.Errorf("executor: %s needs the program jobrunner: this program runs workers only on its own machine", onKubernetes)
	}
	cluster, err := open(ctx, run.ClusterConfig{ClusterSettings: *k, Run: e.register.Run(), Logger: e.log})
	if err == nil { // otherwise it may be a nil pointer in an interface
		e.cluster = cluster
	}
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
		if s.FolderID() == "" { // if this jobrunner is killed, the next run removes the Pod
			if err := e.register.Note(onKubernetes); err != nil {
				return nil, err
			}
		}
		process, err := e.cluster.Start(ctx, s)
		if err == nil {
			return process, nil
		} else if strings.Contains(err.Error(), "ImagePull") { // not the API server or the program
			err = explain(s, err)
		}
		return nil, fmt.Errorf("%w (%s)", err, e.cluster)
	}
}
