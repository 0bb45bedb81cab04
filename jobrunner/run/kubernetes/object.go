package kubernetes

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/pod"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/worker"
)

const (
	containerName = "worker"
	// addressVariable tells a pod where it is reached.
	addressVariable = "RUNPOD_PUBLIC_IP"
	gpuResource     = "nvidia.com/gpu"
	// envSuffix and loginSuffix make the names of a Pod's Secrets.
	envSuffix, loginSuffix = "-env", "-login"
)

// shortestGrace is the seconds that a container has after SIGTERM. With 0 the Pod would be
// forgotten while its container still runs.
var shortestGrace int64 = 1

// Workload is a worker or a pod to start, with what its executor made of the settings.
type Workload struct {
	worker.Spec
	Pod      *pod.Spec // nil: it is a worker
	Words    []string  // of its args
	Registry string    // host of the image's registry
	Pull     core.PullPolicy
}

// kind is what a workload is called.
func (w Workload) kind() string {
	if w.Pod != nil {
		return "pod"
	}
	return "worker"
}

// labels are those of its objects. What has the label of a deployment outlives a
// jobrunner that is killed, and is found by it; what has that of a run does not.
func (c *Cluster) labels(w Workload) map[string]string {
	labels := map[string]string{managedBy: manager}
	if w.Pod == nil {
		labels[runLabel], labels[endpointLabel], labels[workerLabel] = c.Run, w.Endpoint, w.Worker
		return labels
	}
	labels[podLabel], labels[podRunLabel] = w.Worker, strconv.FormatInt(w.Pod.Run, 10)
	if w.Pod.Deployment != "" {
		labels[deploymentLabel] = w.Pod.Deployment
	} else {
		labels[runLabel] = c.Run
	}
	return labels
}

// objects are what a worker or a pod is made of.
type objects struct {
	pod     *core.Pod
	secrets []*core.Secret
}

// build describes a workload's Pod, and the Secrets that hold its variables and its login.
func (c *Cluster) build(s Workload) (objects, error) {
	name := "gpucloud-" + strings.ToLower(s.Worker) + "-" + uuid.NewString()[:8]
	about := func(suffix string) meta.ObjectMeta {
		return meta.ObjectMeta{Name: name + suffix, Namespace: c.Namespace, Labels: c.labels(s)}
	}
	no := false
	container := core.Container{
		Name: containerName, Image: s.Image, ImagePullPolicy: s.Pull, Command: literal(s.Entrypoint), Args: literal(s.Words),
		EnvFrom: []core.EnvFromSource{{SecretRef: &core.SecretEnvSource{LocalObjectReference: core.LocalObjectReference{Name: name + envSuffix}}}},
	}
	spec := core.PodSpec{
		RestartPolicy: core.RestartPolicyNever, TerminationGracePeriodSeconds: &shortestGrace,
		AutomountServiceAccountToken: &no, EnableServiceLinks: &no, // a worker is not to find, nor to ask, the cluster
		Tolerations: c.Tolerations,
	}
	for _, port := range s.listens() {
		container.Ports = append(container.Ports, core.ContainerPort{ContainerPort: int32(port)}) //nolint:gosec // a port
	}
	if s.Pod != nil {
		container.Env = []core.EnvVar{{Name: addressVariable, ValueFrom: &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
		for _, variable := range slices.Sorted(maps.Keys(s.Pod.OwnAddress)) {
			container.Env = append(container.Env, core.EnvVar{Name: variable, Value: "$(" + addressVariable + ")" + s.Pod.OwnAddress[variable]})
		}
	}
	container.Resources = c.resources(s)
	mount(&spec, &container, s.Mounts)
	if len(s.Devices) > 0 {
		spec.Affinity = c.affinity(s.Devices[0].TypeID)
		spec.Tolerations = append(slices.Clone(c.Tolerations), core.Toleration{Key: gpuResource, Operator: core.TolerationOpExists})
	}
	o := objects{secrets: []*core.Secret{{ObjectMeta: about(envSuffix), StringData: c.environment(s.Spec)}}}
	if s.Login != nil {
		login, err := dockerConfig(s)
		if err != nil {
			return objects{}, err
		}
		o.secrets = append(o.secrets, &core.Secret{ObjectMeta: about(loginSuffix), Type: core.SecretTypeDockerConfigJson, Data: map[string][]byte{core.DockerConfigJsonKey: login}})
		spec.ImagePullSecrets = []core.LocalObjectReference{{Name: name + loginSuffix}}
	}
	spec.Containers = []core.Container{container}
	o.pod = &core.Pod{ObjectMeta: about(""), Spec: spec}
	o.pod.OwnerReferences = c.ownersOf(s)
	return o, nil
}

// listens are the ports at which a workload is reached.
func (w Workload) listens() (ports []int) {
	if w.Port != 0 {
		return []int{w.Port}
	}
	if w.Pod != nil {
		for _, port := range w.Pod.Ports {
			ports = append(ports, port.Private)
		}
	}
	return ports
}

// literal keeps Kubernetes from putting variables into words: $(NAME) is what the
// worker's own program gets.
func literal(words []string) (out []string) {
	for _, w := range words {
		out = append(out, strings.ReplaceAll(w, "$(", "$$("))
	}
	return out
}

// environment is the worker's, with the URLs by which Pods reach the jobrunner. Which
// devices it sees is what the cluster's device plugin says.
func (c *Cluster) environment(s worker.Spec) map[string]string {
	env := maps.Clone(s.Env)
	delete(env, addressVariable)
	for name, v := range env {
		if _, path, found := strings.Cut(v, "/v2/"+s.Endpoint+"/"); found && strings.HasPrefix(name, "RUNPOD_WEBHOOK_") {
			env[name] = strings.TrimSuffix(c.URL, "/") + "/v2/" + s.Endpoint + "/" + path
		}
	}
	if len(s.Devices) > 0 {
		delete(env, "CUDA_VISIBLE_DEVICES")
	}
	return env
}

// affinity asks for a node whose GPUs are of a type.
func (c *Cluster) affinity(typeID string) *core.Affinity {
	return &core.Affinity{NodeAffinity: &core.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &core.NodeSelector{
		NodeSelectorTerms: []core.NodeSelectorTerm{{MatchExpressions: []core.NodeSelectorRequirement{
			{Key: c.GPULabel, Operator: core.NodeSelectorOpIn, Values: c.products(typeID)},
		}}},
	}}}
}

// dockerConfig is the login to the image's registry, as a file of docker's has it.
func dockerConfig(s Workload) ([]byte, error) {
	type auth struct {
		Username string `json:"username"`
		Password string `json:"password"`
	}
	return json.Marshal(map[string]map[string]auth{"auths": {s.Registry: {s.Login.Username, s.Login.Password}}})
}
