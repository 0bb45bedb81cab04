//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/containers"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/tfcli"
)

const clusterImage = "localhost/team/contained:1"

// inCluster is a deployment whose workers are Pods of a real Kubernetes cluster.
type inCluster struct {
	*containerDeployment
	test    *testing.T
	cluster *containers.Kubernetes
	gateway *containers.Gateway
	args    []string // further arguments of serve
}

// startForwarded starts the jobrunner and forwards the workers' requests to it.
func (c *inCluster) startForwarded() {
	c.test.Helper()
	c.start(c.test, c.args...)
	c.gateway.Forward(strings.TrimPrefix(c.url, "http://"))
}

func startInCluster(t *testing.T, env ...string) *inCluster {
	t.Helper()
	c := prepareInCluster(t, env...)
	c.startForwarded()
	return c
}

// prepareInCluster writes the configuration without starting the jobrunner.
func prepareInCluster(t *testing.T, env ...string) *inCluster {
	t.Helper()
	k := containers.StartKubernetes(t)
	c := &inCluster{test: t, cluster: k, gateway: k.NewGateway(t), containerDeployment: &containerDeployment{testDeployment: &testDeployment{home: t.TempDir(), env: env}}}
	writeFile(t, filepath.Join(c.home, "jobrunner.yaml"), fmt.Sprintf(`executor: kubernetes
kubernetes:
  kubeconfig: %s
  url: %s
  tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}]
  storage_class: `+containers.StorageClass+`
  volume_access: ReadWriteOnce
  reserve: none # the machine is small
`, k.Kubeconfig, c.gateway.URL))
	t.Cleanup(func() {
		if t.Failed() { // the process has ended, so stderr can be read
			t.Logf("the jobrunner's log:\n%s\nthe pods' logs:\n%s", &c.stderr, c.podLogs())
		}
	})
	return c
}

func (c *inCluster) podLogs() string {
	var logs strings.Builder
	files, _ := filepath.Glob(filepath.Join(c.home, "data", "pods", "*", "log.jsonl"))
	for _, file := range files {
		text, _ := os.ReadFile(file) // fails if its pod was deleted
		fmt.Fprintf(&logs, "%s\n%s\n", file, text[max(0, len(text)-4000):])
	}
	return logs.String()
}

// pods returns the endpoint's Pods from the API server.
func (c *inCluster) pods() []clusterPod {
	c.t.Helper()
	return c.podsWithLabel("endpoint", c.endpoint)
}

func (c *inCluster) podsWithLabel(label, value string) []clusterPod {
	c.t.Helper()
	var list struct{ Items []clusterPod }
	c.cluster.Get(c.t, "/api/v1/namespaces/"+c.cluster.Namespace+"/pods?labelSelector=gpucloud%2F"+label+"%3D"+value, &list)
	return list.Items
}

type clusterPod struct {
	Metadata struct {
		Name            string
		OwnerReferences []struct{ Kind, Name string }
	}
	Spec json.RawMessage
}

// awaitEmpty waits until the cluster has no Pod and no Secret of the endpoint.
func (c *inCluster) awaitEmpty() {
	c.t.Helper()
	c.waitUntil("the removal of the Pods", func() bool {
		var secrets struct{ Items []json.RawMessage }
		c.cluster.Get(c.t, "/api/v1/namespaces/"+c.cluster.Namespace+"/secrets?labelSelector=gpucloud%2Fendpoint%3D"+c.endpoint, &secrets)
		return len(c.pods()) == 0 && len(secrets.Items) == 0
	})
}

// Workers are Pods of a real cluster: they get their arguments, variables and a GPU of the requested
// type, and are deleted when they aren't needed. If one can't start, the list of workers has the reason.
func TestKubernetes(t *testing.T) {
	acctest.LeaveToCI(t, "package kubernetes tests against an API server in the process")
	t.Parallel()
	k := containers.StartKubernetes(t)
	k.AddNode(t)
	k.ProvisionVolumes(t)
	buildImage(t, k, clusterImage, "contained", nil)
	t.Run("faults", testKubernetesFaults)
	// Three GPUs for workers, two for a cluster, one for a pod. All have one type: the scheduler sees a new label late.
	k.SetGPUs(t, 1, 3, "NVIDIA-L4")
	k.SetGPUs(t, 2, 3, "NVIDIA-L4")
	t.Run("life", func(t *testing.T) { t.Parallel(); testKubernetesLife(t) })
	t.Run("refusals", func(t *testing.T) { t.Parallel(); testKubernetesRefusals(t) })
	t.Run("kill", func(t *testing.T) { t.Parallel(); testKubernetesKill(t) })
	t.Run("pods", func(t *testing.T) { t.Parallel(); testKubernetesPods(t) })
	t.Run("clusters", func(t *testing.T) { t.Parallel(); testKubernetesClusters(t) })
	t.Run("volumes", func(t *testing.T) { t.Parallel(); testKubernetesVolumes(t) })
	t.Run("balanced", func(t *testing.T) { t.Parallel(); testKubernetesBalanced(t) })
	t.Run("conforms", func(t *testing.T) { t.Parallel(); testKubernetesConforms(t) })
}

// applyEndpoint applies the endpoint's configuration with Terraform. The workers get the token.
func (c *inCluster) applyEndpoint(w *acctest.Workspace, token string) {
	c.t.Helper()
	w.Write("main.tf", fmt.Sprintf(`
resource "gpucloud_template" "t" {
  name       = "workers"
  serverless = true
  image      = %q
  args       = "python3 -u /worker/contained.py 'two words' '$(PATH)'"
  env        = { TOKEN = %q }
}
resource "gpucloud_endpoint" "e" {
  name        = "e"
  template_id = gpucloud_template.t.id
  gpu         = { type_ids = ["NVIDIA L4"] }
  workers     = { min = 0, max = 3, idle_timeout = 5 }
  scaling     = { type = "QUEUE_DELAY", queue_delay = 0.5 }
}
output "endpoint" {
  value = gpucloud_endpoint.e.id
}
`, clusterImage, token))
	w.MustRun("apply", "-auto-approve")
	c.endpoint = strings.TrimSpace(w.MustRun("output", "-raw", "endpoint"))
}

// The workers of an endpoint from Terraform match the configuration and scale with jobs. A changed
// template is a release, and a running job finishes on the previous one.
func testKubernetesLife(t *testing.T) {
	c := startInCluster(t)
	cli := must.Do(tfcli.Default(t.Context()))(t)
	w := (&acctest.Deployment{URL: c.url, Key: "k"}).Workspace(t, cli, api.V2)
	c.applyEndpoint(w, "planted-token")
	firstAnswer := c.awaitCompletion(c.submit(`{"name": "one", "env": ["TOKEN", "CUDA_VISIBLE_DEVICES"]}`))
	must.Equal(t, firstAnswer.Args, []string{"two words", "$(PATH)"}, "arguments")
	token := firstAnswer.Env["TOKEN"]
	must.Hold(t, token != nil && *token == "planted-token" && firstAnswer.Env["CUDA_VISIBLE_DEVICES"] == nil, "the worker has the variables", firstAnswer.Env)
	for _, pod := range c.pods() {
		for _, part := range []string{`"nvidia.com/gpu":"1"`, `"NVIDIA-L4"`, `"automountServiceAccountToken":false`, `"restartPolicy":"Never"`} {
			must.Hold(t, strings.Contains(string(pod.Spec), part), "the Pod has no", part, string(pod.Spec))
		}
		must.Hold(t, !strings.Contains(string(pod.Spec), "planted-token"), "a secret is in the Pod", string(pod.Spec))
	}
	must.Contain(t, c.logOf(firstAnswer.Worker, "container"), "it starts, and")
	// A dead worker's exit status is reported.
	job := c.awaitEnd(c.submit(`{"name": "dies", "exit": 3}`))
	must.Hold(t, job.Status == "FAILED" && strings.Contains(string(job.Error), "exit status 3"), "the job of a dead worker is", job)
	// Three concurrent workers have a GPU each.
	var ids []string
	for _, name := range []string{"a", "b", "c"} {
		ids = append(ids, c.submit(`{"name": "`+name+`", "wait": "never"}`))
	}
	c.waitUntil("three Pods", func() bool { return len(c.pods()) == 3 })
	for _, id := range ids {
		c.call(http.MethodPost, "/v2/"+c.endpoint+"/cancel/"+id, "", nil)
		job := c.awaitEnd(id)
		must.Hold(t, job.Status == "CANCELLED", "the cancelled job is", job)
	}
	// A running job keeps the variables of its release; the next job gets the new variables.
	idBefore := c.submit(`{"name": "before", "ms": 5000, "env": ["TOKEN"]}`)
	c.waitUntil("the job of the release before", func() bool {
		job, err := c.client("k").Jobs.Status(t.Context(), c.endpoint, idBefore)
		return err == nil && job.Status == "IN_PROGRESS"
	})
	endpoint := c.endpoint
	c.applyEndpoint(w, "another-token")
	must.Equal(t, c.endpoint, endpoint, "the id of the endpoint after the second apply")
	answerAfter := c.awaitCompletion(c.submit(`{"name": "after", "env": ["TOKEN"]}`))
	token = answerAfter.Env["TOKEN"]
	must.Hold(t, token != nil && *token == "another-token", "the new release has the variables", answerAfter.Env)
	answerBefore := c.awaitCompletion(idBefore)
	must.Hold(t, answerBefore.Worker != answerAfter.Worker && *answerBefore.Env["TOKEN"] == "planted-token", "the first release answered", answerBefore, "and the second release", answerAfter)
	c.awaitEmpty() // no jobs: no workers
	w.MustRun("destroy", "-auto-approve")
	c.interrupt()
}

func testKubernetesRefusals(t *testing.T) {
	c := startInCluster(t)
	for _, refusal := range []struct{ members, reason string }{
		{`"image": "127.0.0.1:1/team/absent", "cpu": [{"id": "cpu3c", "vcpuCount": 2}]`, "the registry 127.0.0.1:1 can't be reached"},
		{`"image": "` + clusterImage + `", "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "args": "no-such-program"`, "no-such-program"},
	} {
		c.createEndpoint("/v2/serverless", `{"name": "e", `+refusal.members+`, "workers": {"min": 1, "max": 1}}`)
		c.waitUntil("a worker's reason: "+refusal.reason, func() bool {
			_, workers := c.get("/v2/serverless/" + c.endpoint + "/workers")
			return strings.Contains(workers, refusal.reason)
		})
		c.call(http.MethodDelete, "/v2/serverless/"+c.endpoint, "", nil)
		c.awaitEmpty()
	}
	c.interrupt()
}

// The load balancer reaches workers at their Pods' addresses and the template's port.
func testKubernetesBalanced(t *testing.T) {
	c := startInCluster(t)
	c.createEndpoint("/v2/serverless", `{"name": "e", "image": "`+clusterImage+`", "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "args": "python3 -u /worker/served.py", "ports": ["22/tcp", "8123/http"],
		"type": "LOAD_BALANCER", "scaling": {"type": "REQUEST_COUNT", "requestCount": 1}, "workers": {"min": 2, "max": 2}}`)
	c.awaitBothAnswers()
	for _, pod := range c.pods() {
		must.Hold(t, strings.Contains(string(pod.Spec), `"containerPort":8123`), "the Pod doesn't declare its port", string(pod.Spec))
	}
	c.interrupt()
	c.awaitEmpty()
}

// The jobrunner's own Pod owns the workers' Pods. After a kill, the next start deletes them, and their jobs run again.
func testKubernetesKill(t *testing.T) {
	containers.StartKubernetes(t).CreatePod(t, "jobrunner-0")
	c := startInCluster(t, "POD_NAME=jobrunner-0")
	c.createEndpoint("/v2/serverless", `{"name": "e", "image": "`+clusterImage+`", "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "workers": {"min": 1, "max": 1}}`)
	c.awaitCompletion(c.submit(`{"name": "one"}`))
	podsBefore := c.pods()
	c.kill()
	podsAfter := c.pods()
	must.Require(t, len(podsBefore) == 1 && len(podsAfter) == 1, "the Pods were", podsBefore, "and after the kill are", podsAfter)
	owners := podsBefore[0].Metadata.OwnerReferences
	must.Hold(t, len(owners) == 1 && owners[0].Kind == "Pod" && owners[0].Name == "jobrunner-0", "the Pod has the owners", owners)
	c.startForwarded()
	c.awaitCompletion(c.submit(`{"name": "two"}`))
	c.waitUntil("one Pod", func() bool {
		now := c.pods()
		return len(now) == 1 && now[0].Metadata.Name != podsBefore[0].Metadata.Name
	})
	c.interrupt()
	c.awaitEmpty()
}

// podThatEnds is podProgram with a handler for SIGTERM, which process 1 otherwise ignores.
const podThatEnds = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit())\n" + podProgram

// A pod of the API runs as a Pod of the cluster. It survives a kill of the jobrunner without losing a line of
// its log. Its disk is new at each start; its volume is kept until a reset.
func testKubernetesPods(t *testing.T) {
	c := startInCluster(t)
	id := c.createPod(fmt.Sprintf(`{"name":"p","image":%q,"args":%q,"gpu":{"id":"NVIDIA L4"},"env":{"COLOR":"red"},"ports":["8080/http"],"mounts":{"persistent":{"size":10,"path":"/volume"}}}`,
		clusterImage, pythonArgs(podThatEnds)+" serve"))
	p := c.awaitPodStatus(id, "RUNNING")
	c.awaitLogLine(id, "", "disk 1 volume 1 red", nil)
	must.Require(t, len(p.Runtime.Ports) == 1 && p.Runtime.Ports[0].Public == 8080, "the pod's runtime is", p.Runtime)
	url := fmt.Sprintf("http://%s:8080/starts", p.Runtime.Ports[0].IP)
	c.waitForAnswer(url, "start\n")
	must.Equal(t, c.cluster.ClaimSize(t, "gpucloud-pod-"+id), "10G", "the size of the claim")
	podsBefore := c.podsWithLabel("pod", id)
	must.Require(t, len(podsBefore) == 1 && strings.Contains(string(podsBefore[0].Spec), `"nvidia.com/gpu":"1"`), "the Pods are", podsBefore)
	c.kill()
	c.startForwarded()
	now := c.awaitPodStatus(id, "RUNNING")
	must.Hold(t, now.Runtime != nil && len(now.Runtime.Ports) == 1 && now.Runtime.Ports[0].IP == p.Runtime.Ports[0].IP, "the pod was", p, "and after the kill is", now)
	c.awaitLogLine(id, "?source=system&tail=5000", "adopted the pod's container, which had kept running", nil)
	last := c.expectNumbers(id)
	c.waitUntil("further lines", func() bool { return c.expectNumbers(id) > last })
	podsNow := c.podsWithLabel("pod", id)
	must.Hold(t, len(podsNow) == 1 && podsNow[0].Metadata.Name == podsBefore[0].Metadata.Name, "the Pod was", podsBefore[0].Metadata.Name, "and is", podsNow)
	c.performAction(id, "restart")
	c.awaitLogLine(id, "", "disk 1 volume 2 red", nil)
	c.performAction(id, "stop")
	c.awaitPodStatus(id, "EXITED")
	c.waitUntil("the removal", func() bool { return len(c.podsWithLabel("pod", id)) == 0 })
	c.performAction(id, "start")
	c.awaitLogLine(id, "", "disk 1 volume 3 red", nil)
	c.call(http.MethodPost, "/v1/pods/"+id+"/reset", "", nil)
	c.waitUntil("an empty volume", func() bool { // the log may have dropped old lines
		starts := c.logLinesStartingWith(id, "disk")
		return len(starts) > 0 && starts[len(starts)-1] == "1 volume 1 red"
	})
	c.performAction(id, "terminate")
	c.waitUntil("the removal", func() bool {
		return len(c.podsWithLabel("pod", id)) == 0 && c.cluster.ClaimSize(t, "gpucloud-pod-"+id) == ""
	})

	endingPod := c.createPod(fmt.Sprintf(`{"name":"p","image":%q,"args":"python3 -c 'raise SystemExit(3)'",%s}`, clusterImage, cpu))
	p = c.awaitPodStatus(endingPod, "ERROR")
	must.Hold(t, p.Reason != nil && strings.Contains(*p.Reason, "exit status 3"), "the ended pod is", p)
	podOfAbsentImage := c.createPod(fmt.Sprintf(`{"name":"p","image":"127.0.0.1:1/team/absent",%s}`, cpu))
	c.awaitReason(podOfAbsentImage, "the registry 127.0.0.1:1 can't be reached")
	c.interrupt()
	left := c.podsWithLabel("pod", podOfAbsentImage)
	must.Hold(t, len(left) == 0, "Pods are left:", left)
}

// A network volume is a claim that grows with the volume and is deleted with it.
func testKubernetesVolumes(t *testing.T) {
	c := startInCluster(t)
	volume := c.createVolume()
	c.createEndpoint("/v2/serverless", `{"name": "e", "image": "`+clusterImage+`", "cpu": [{"id": "cpu3c", "vcpuCount": 2}], "networkVolumes": ["`+volume+`"], "workers": {"min": 0, "max": 1, "idleTimeout": 1}}`)
	c.awaitCompletion(c.submit(`{"name": "one"}`))
	for _, pod := range c.pods() {
		for _, part := range []string{`"cpu":"2"`, `"memory":"4G"`, `"ephemeral-storage":"`} {
			must.Hold(t, strings.Contains(string(pod.Spec), part), "the Pod lacks the limit", part, string(pod.Spec))
		}
	}
	claim := "gpucloud-volume-" + volume
	must.Equal(t, c.cluster.ClaimSize(t, claim), "10G", "the size of the claim")
	c.call(http.MethodPatch, "/v2/network-volumes/"+volume, `{"size": 20}`, nil)
	c.waitUntil("a larger claim", func() bool { return c.cluster.ClaimSize(t, claim) == "20G" })
	c.call(http.MethodDelete, "/v2/serverless/"+c.endpoint, "", nil)
	c.awaitEmpty()
	c.call(http.MethodDelete, "/v2/network-volumes/"+volume, "", nil)
	c.waitUntil("no claim", func() bool { return c.cluster.ClaimSize(t, claim) == "" })
	c.interrupt()
}

// The members of a cluster are Pods that know the primary's address. They survive a kill -9 of the
// jobrunner, and the next one adopts them. If the primary's Pod is gone by then, it is replaced,
// and the others restart with the new address. A cluster without enough GPUs has no Pods.
func testKubernetesClusters(t *testing.T) {
	c := startInCluster(t)
	podsOf := func(id string) (names []string) {
		for _, m := range c.members(id) {
			for _, pod := range c.podsWithLabel("pod", m.ID) {
				names = append(names, pod.Metadata.Name)
			}
		}
		return names
	}
	// awaitNthGreetings waits until each pod of a cluster greets for the n-th time, and returns the primary's address.
	awaitNthGreetings := func(id string, n int) (primary string) {
		cluster := c.awaitClusterStatus(id, "RUNNING")
		must.Hold(t, cluster.Network == nil, "a cluster of Pods has a network of its own:", cluster)
		members := c.members(id)
		primary = members[0].Cluster.IP
		for rank, variables := range c.awaitGreetings(members, "red", n) {
			want := []string{fmt.Sprint(rank), "2", "1", "2", members[rank].Cluster.IP, primary, "29400"}
			must.Equal(t, variables, want, "the variables of the member", rank)
		}
		return primary
	}
	red := c.createGreetingCluster("red", clusterImage, 2)
	primary := awaitNthGreetings(red, 1)
	redPods := podsOf(red)

	blue := c.createGreetingCluster("blue", clusterImage, 5) // at most four of six GPUs are free
	c.awaitReason(c.members(blue)[1].ID, "NVIDIA L4")
	bluePods := podsOf(blue)
	must.Hold(t, len(redPods) == 2 && len(bluePods) == 0, "the cluster red has the Pods", redPods, "and blue has", bluePods)
	c.call(http.MethodDelete, "/v2/clusters/"+blue, "", nil)

	c.kill()
	c.startForwarded()
	now := awaitNthGreetings(red, 1)
	must.Hold(t, now == primary && slices.Equal(podsOf(red), redPods), "the Pods were", redPods, "and are", podsOf(red), "the primary's address was", primary, "and is", now)
	c.kill()
	c.cluster.DeletePod(t, redPods[0])
	c.startForwarded()
	c.waitUntil("another primary", func() bool {
		now := podsOf(red)
		return len(now) == 2 && now[0] != redPods[0] && now[1] != redPods[1]
	})
	awaitNthGreetings(red, 2)
	members := c.members(red)
	c.call(http.MethodDelete, "/v2/clusters/"+red, "", nil)
	c.waitUntil("the removal", func() bool {
		return !slices.ContainsFunc(members, func(m podFacts) bool { return len(c.podsWithLabel("pod", m.ID)) > 0 })
	})
	c.interrupt()
}
