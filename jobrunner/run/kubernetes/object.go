package kubernetes

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
)

const (
	containerName   = "worker"
	addressVariable = "RUNPOD_PUBLIC_IP" // has a pod's own address
	gpuResource     = "nvidia.com/gpu"
	// Suffixes of the names of a Pod's Secrets.
	envSuffix, loginSuffix = "-env", "-login"
)

// shortestGrace is the time from SIGTERM to SIGKILL, in seconds. With 0 the Pod would be gone before its container.
var shortestGrace int64 = 1

// labels returns the labels of all objects of a worker or pod. Objects with folderLabel outlive a jobrunner
// that is killed, and the next run on its data folder finds them. Objects with runLabel end with that run.
func (c *Cluster) labels(s run.Spec) map[string]string {
	labels := map[string]string{managedBy: manager}
	if s.Pod == nil {
		labels[endpointLabel], labels[workerLabel] = s.Endpoint, s.ID
	} else {
		labels[podLabel], labels[podGenerationLabel] = s.ID, strconv.FormatInt(s.Pod.Run, 10)
	}
	if id := s.FolderID(); id != "" {
		labels[folderLabel] = id
	} else {
		labels[runLabel] = c.Run
	}
	return labels
}

type objects struct {
	pod     *core.Pod
	secrets []*core.Secret
}

// build returns the Pod of a worker or pod, and Secrets with its variables and login.
func (c *Cluster) build(s run.Spec) (objects, error) {
	command, err := s.Command()
	if err = errors.Join(err, s.CheckVariables()); err != nil {
		return objects{}, err
	}
	name := "gpucloud-" + strings.ToLower(s.ID) + "-" + uuid.NewString()[:8]
	metaOf := func(suffix string) meta.ObjectMeta {
		return meta.ObjectMeta{Name: name + suffix, Namespace: c.namespace, Labels: c.labels(s)}
	}
	no, pull := false, core.PullIfNotPresent
	if s.PullAlways {
		pull = core.PullAlways
	}
	container := core.Container{
		Name: containerName, Image: s.Image, ImagePullPolicy: pull, Command: escape(command.Entrypoint), Args: escape(command.Cmd),
		EnvFrom: []core.EnvFromSource{{SecretRef: &core.SecretEnvSource{LocalObjectReference: core.LocalObjectReference{Name: name + envSuffix}}}},
	}
	spec := core.PodSpec{
		RestartPolicy: core.RestartPolicyNever, TerminationGracePeriodSeconds: &shortestGrace,
		AutomountServiceAccountToken: &no, EnableServiceLinks: &no, // a worker has no access to the cluster
	}
	for _, t := range c.Tolerations {
		spec.Tolerations = append(spec.Tolerations, core.Toleration{
			Key: t.Key.Value, Operator: core.TolerationOperator(t.Operator.Value), Value: t.Value.Value, Effect: core.TaintEffect(t.Effect.Value),
		})
	}
	for _, port := range listenPorts(s) {
		container.Ports = append(container.Ports, core.ContainerPort{ContainerPort: int32(port)}) //nolint:gosec // a port fits in an int32
	}
	if s.Pod != nil {
		container.Env = []core.EnvVar{{Name: addressVariable, ValueFrom: &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
		for _, variable := range slices.Sorted(maps.Keys(s.Pod.AddressVariables)) {
			container.Env = append(container.Env, core.EnvVar{Name: variable, Value: "$(" + addressVariable + ")" + s.Pod.AddressVariables[variable]})
		}
	}
	container.Resources = c.resources(s)
	mount(&spec, &container, s.Mounts)
	if len(s.Devices) > 0 {
		spec.Affinity = c.affinity(s.Devices[0].TypeID)
		spec.Tolerations = append(spec.Tolerations, core.Toleration{Key: gpuResource, Operator: core.TolerationOpExists})
	}
	o := objects{secrets: []*core.Secret{{ObjectMeta: metaOf(envSuffix), StringData: c.environment(s)}}}
	if s.Login != nil {
		login, err := run.DockerConfig(run.Registry(s.Image), *s.Login)
		if err != nil {
			return objects{}, err
		}
		o.secrets = append(o.secrets, &core.Secret{ObjectMeta: metaOf(loginSuffix), Type: core.SecretTypeDockerConfigJson, Data: map[string][]byte{core.DockerConfigJsonKey: login}})
		spec.ImagePullSecrets = []core.LocalObjectReference{{Name: name + loginSuffix}}
	}
	spec.Containers = []core.Container{container}
	o.pod = &core.Pod{ObjectMeta: metaOf(""), Spec: spec}
	o.pod.OwnerReferences = c.owners.pod
	if s.FolderID() != "" {
		o.pod.OwnerReferences = c.owners.controller
	}
	return o, nil
}

// listenPorts returns the ports where a worker or pod is reached.
func listenPorts(s run.Spec) (ports []int) {
	if s.Port != 0 {
		return []int{s.Port}
	}
	if s.Pod != nil {
		for _, port := range s.Pod.Ports {
			ports = append(ports, port.Private)
		}
	}
	return ports
}

// escape escapes each $ in words: Kubernetes expands $(NAME), and reduces $$ to $.
func escape(words []string) (escaped []string) {
	for _, w := range words {
		escaped = append(escaped, strings.ReplaceAll(w, "$", "$$"))
	}
	return escaped
}

// environment returns the variables, with the jobrunner's URL for Pods. The cluster's device plugin sets the visible
// devices, which a template must not override. Without devices, a Pod sees no GPU, even if its image asks for all.
func (c *Cluster) environment(s run.Spec) map[string]string {
	env := maps.Collect(maps.All(s.Env))
	delete(env, addressVariable)
	for name, v := range env {
		if _, path, found := strings.Cut(v, "/v2/"); found && strings.HasPrefix(name, "RUNPOD_WEBHOOK_") {
			env[name] = strings.TrimSuffix(c.URL.Value, "/") + "/v2/" + path
		}
	}
	if len(s.Devices) > 0 {
		delete(env, "CUDA_VISIBLE_DEVICES")
		delete(env, "NVIDIA_VISIBLE_DEVICES")
	} else {
		env["NVIDIA_VISIBLE_DEVICES"] = "void"
	}
	return env
}

func (c *Cluster) affinity(typeID string) *core.Affinity {
	return &core.Affinity{NodeAffinity: &core.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &core.NodeSelector{
		NodeSelectorTerms: []core.NodeSelectorTerm{{MatchExpressions: []core.NodeSelectorRequirement{
			{Key: c.GPULabel.Value, Operator: core.NodeSelectorOpIn, Values: c.labelsOf(typeID)},
		}}},
	}}}
}

// resources returns the limits of a worker or pod, and what a node reserves for it. Both are the same
// unless the cluster is overcommitted. GPUs are always reserved: Kubernetes copies their limit.
func (c *Cluster) resources(s run.Spec) core.ResourceRequirements {
	limits := core.ResourceList{}
	limit := func(name core.ResourceName, value int64, unit resource.Scale) {
		if value > 0 {
			limits[name] = *resource.NewScaledQuantity(value, unit)
		}
	}
	limit(core.ResourceCPU, s.VCPUs, 0)
	limit(core.ResourceMemory, s.Memory, resource.Giga)
	limit(core.ResourceEphemeralStorage, s.Disk, resource.Giga)
	requests := core.ResourceList{}
	for name, quantity := range limits {
		if c.Reserve.Value == run.ReserveNone {
			quantity = resource.Quantity{}
		}
		requests[name] = quantity
	}
	limit(gpuResource, int64(len(s.Devices)), 0)
	return core.ResourceRequirements{Limits: limits, Requests: requests}
}
