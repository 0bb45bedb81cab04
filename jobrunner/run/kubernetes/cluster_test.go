package kubernetes

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/goccy/go-yaml"
	core "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/scheme"
	fakeapps "k8s.io/client-go/kubernetes/typed/apps/v1/fake"
	fakecore "k8s.io/client-go/kubernetes/typed/core/v1/fake"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/gpu"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/yamlfile"
)

// These tests are for responses that the real cluster of TestKubernetes in cmd/jobrunner doesn't give.

// simulatedCluster is a cluster whose responses the test chooses.
type simulatedCluster struct {
	*Cluster
	t    *testing.T
	fake *ktesting.Fake
}

func simulate(t *testing.T, objects ...runtime.Object) *simulatedCluster {
	t.Helper()
	return simulateAs(t, "", objects...)
}

// simulateAs is simulate for a jobrunner in the Pod self.
func simulateAs(t *testing.T, self string, objects ...runtime.Object) *simulatedCluster {
	t.Helper()
	f, tracker := new(ktesting.Fake), ktesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder())
	for _, o := range objects {
		must.Succeed(t, tracker.Add(o))
	}
	f.AddReactor("*", "*", ktesting.ObjectReaction(tracker))
	f.AddWatchReactor("*", func(a ktesting.Action) (bool, watch.Interface, error) {
		options := a.(ktesting.WatchActionImpl).ListOptions
		if options.SendInitialEvents != nil {
			return true, nil, errors.New("the tracker can't send them")
		}
		w, err := tracker.Watch(a.GetResource(), a.GetNamespace(), options)
		return true, w, err
	})
	api := client{&fakecore.FakeCoreV1{Fake: f}, &fakeapps.FakeAppsV1{Fake: f}, &fakediscovery.FakeDiscovery{Fake: f}}
	c := must.Do(open(t.Context(), run.ClusterConfig{ClusterSettings: run.ClusterSettings{URL: yamlfile.Text{Value: "http://jobrunner:8420/"}}, Run: "run-1"}, "gpucloud", self, api))(t)
	t.Cleanup(func() { c.Close() })
	return &simulatedCluster{Cluster: c, t: t, fake: f}
}

type startResult struct {
	process run.Process
	err     error
}

// begin starts a worker, and returns once its Pod exists.
func (s *simulatedCluster) begin(w run.Spec) (pod *core.Pod, result <-chan startResult) {
	s.t.Helper()
	out := make(chan startResult, 1)
	go func() {
		p, err := s.Start(s.t.Context(), w)
		out <- startResult{p, err}
	}()
	return s.awaitPod(), out
}

// runWorker starts a worker, and returns once its container runs.
func (s *simulatedCluster) runWorker(w run.Spec) (*core.Pod, run.Process) {
	s.t.Helper()
	pod, result := s.begin(w)
	s.setState(pod, running)
	got := <-result
	must.Succeed(s.t, got.err)
	return pod, got.process
}

func (s *simulatedCluster) awaitPod() *core.Pod {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) { // the goroutines of client-go run in real time
		list := must.Do(s.client.core.Pods("gpucloud").List(s.t.Context(), meta.ListOptions{}))(s.t)
		if len(list.Items) > 0 {
			return &list.Items[0]
		}
	}
	s.t.Fatal("there is no Pod")
	return nil
}

// setState sets the state of the Pod's container.
func (s *simulatedCluster) setState(pod *core.Pod, state core.ContainerState) {
	s.t.Helper()
	pod.Status.ContainerStatuses = []core.ContainerStatus{{Name: containerName, State: state}}
	must.Do(s.client.core.Pods("gpucloud").UpdateStatus(s.t.Context(), pod, meta.UpdateOptions{}))(s.t)
}

func (s *simulatedCluster) objectCount() int {
	s.t.Helper()
	pods, err := s.client.core.Pods("gpucloud").List(s.t.Context(), meta.ListOptions{})
	secrets, secretsErr := s.client.core.Secrets("gpucloud").List(s.t.Context(), meta.ListOptions{})
	must.Succeed(s.t, errors.Join(err, secretsErr))
	return len(pods.Items) + len(secrets.Items)
}

func workerSpec() run.Spec {
	return run.Spec{
		Endpoint: "e1", ID: "W1", PullAlways: true, Log: new(markedLog), Login: &run.Login{Username: "u", Password: "planted-too"},
		Container: store.Container{Image: "r.example/i:1", Args: `{"entrypoint":["sh","$(A)"],"cmd":["serve","$(HOME) $$"]}`, Env: map[string]string{
			"TOKEN": "planted", "RUNPOD_WEBHOOK_GET_JOB": "http://127.0.0.1:8420/v2/e1-batch/job-take/$ID?gpu=x",
		}},
	}
}

type markedLog struct {
	livelog.Log
	mu    sync.Mutex
	marks []string
}

func (l *markedLog) WriteLine(text, mark string) {
	l.Log.WriteLine(text, mark)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marks = append(l.marks, mark)
}

var (
	running = core.ContainerState{Running: &core.ContainerStateRunning{}}
	ended   = core.ContainerState{Terminated: &core.ContainerStateTerminated{}} // by SIGTERM
)

// A worker is a Pod and two Secrets. The Pod contains no secret, and its URLs are reachable from Pods.
func TestWorker(t *testing.T) {
	s := simulate(t)
	pod, process := s.runWorker(workerSpec())
	text := must.Do(pod.Marshal())(t)
	c := pod.Spec.Containers[0]
	must.Hold(t, !bytes.Contains(text, []byte("planted")) && slices.Equal(c.Command, []string{"sh", "$$(A)"}) && slices.Equal(c.Args, []string{"serve", "$$(HOME) $$$$"}) && c.ImagePullPolicy == core.PullAlways && !*pod.Spec.AutomountServiceAccountToken && len(pod.Spec.ImagePullSecrets) == 1, "the Pod contains a secret, or isn't the worker's:", pod.Spec)
	secrets, err := s.client.core.Secrets("gpucloud").List(t.Context(), meta.ListOptions{})
	must.Require(t, err == nil && len(secrets.Items) == 2, "the Secrets are", secrets, err, "want two")
	must.Equal(t, s.environment(workerSpec())["NVIDIA_VISIBLE_DEVICES"], "void", "the GPUs that a worker without devices sees")
	for _, secret := range secrets.Items {
		url := secret.StringData["RUNPOD_WEBHOOK_GET_JOB"]
		must.Hold(t, url == "" || url == "http://jobrunner:8420/v2/e1-batch/job-take/$ID?gpu=x", "the worker's URL is", url)
		login := secret.Data[core.DockerConfigJsonKey]
		must.Hold(t, login == nil || string(login) == `{"auths":{"r.example":{"auth":"dTpwbGFudGVkLXRvbw=="}}}`, "the login is", string(login))
	}
	process.Stop(0)
	process.Stop(0) // again
	exit := process.Exit().Text
	must.Hold(t, exit == "stopped by the jobrunner" && s.objectCount() == 0, "it ended with", exit, "and", s.objectCount(), "objects are left")
}

// If a container can't start, the error says why, and no object is left.
func TestStartFails(t *testing.T) {
	for name, c := range map[string]struct {
		state core.ContainerState
		want  string
	}{
		"image":   {core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "ErrImagePull", Message: "manifest unknown"}}, "ErrImagePull: manifest unknown"},
		"program": {core.ContainerState{Terminated: &core.ContainerStateTerminated{Reason: "StartError", ExitCode: 128, Message: "no such program"}}, "StartError: no such program"},
	} {
		t.Run(name, func(t *testing.T) {
			s := simulate(t)
			pod, result := s.begin(workerSpec())
			s.setState(pod, core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: "ContainerCreating"}})
			s.setState(pod, c.state)
			got := <-result
			must.Hold(t, got.err != nil && strings.Contains(got.err.Error(), c.want) && s.objectCount() == 0, "the error is", got.err, "and", s.objectCount(), "objects are left")
		})
	}
}

// A Pod that the cluster rejects, for a quota or a permission, leaves no Secret. Its start doesn't wait for rights.
func TestPodIsRejected(t *testing.T) {
	s := simulate(t)
	forbidden := func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, kerrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "w", errors.New("exceeded quota: gpus"))
	}
	s.fake.PrependReactor("create", "pods", forbidden)
	_, err := s.Start(t.Context(), workerSpec())
	must.Hold(t, err != nil && strings.Contains(err.Error(), "exceeded quota: gpus") && s.objectCount() == 0, "the error is", err, "and", s.objectCount(), "objects are left")
	w := workerSpec()
	w.Env["A B"] = ""
	must.ErrorContains(t, must.Err(s.build(w)), `invalid variable "A B"`)
	s.removeTimeout = time.Hour
	s.fake.PrependReactor("create", "secrets", forbidden)
	s.fake.PrependReactor("delete", "secrets", forbidden)
	must.ErrorContains(t, must.Err(s.Start(t.Context(), workerSpec())), "creating the worker's Secret")
}

// The text of an exit says why the cluster ended the worker.
func TestEndedByTheCluster(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(s *simulatedCluster, pod *core.Pod)
		want string
	}{
		"memory": {func(s *simulatedCluster, pod *core.Pod) {
			s.setState(pod, core.ContainerState{Terminated: &core.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}})
		}, "exit status 137: killed by SIGKILL, out of memory"},
		"evicted": {func(s *simulatedCluster, pod *core.Pod) {
			pod.Status.Phase, pod.Status.Reason, pod.Status.Message = core.PodFailed, "Evicted", "The node was low on memory."
			s.setState(pod, ended)
		}, "the cluster ended it: Evicted: The node was low on memory."},
		"lost node": {func(s *simulatedCluster, pod *core.Pod) {
			pod.Status.Conditions = []core.PodCondition{{Type: core.DisruptionTarget, Status: core.ConditionTrue, Reason: "DeletionByTaintManager", Message: "Taint manager: deleting"}}
			s.setState(pod, running)
		}, "the cluster ended it: DeletionByTaintManager: Taint manager: deleting"},
		"drained node": {func(s *simulatedCluster, pod *core.Pod) {
			pod.DeletionTimestamp = &meta.Time{Time: time.Now()}
			pod.Status.Conditions = []core.PodCondition{{Type: core.DisruptionTarget, Status: core.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"}}
			s.setState(pod, ended)
		}, "the cluster ended it: EvictionByEvictionAPI: Eviction API: evicting"},
		"deleted with notice": {func(s *simulatedCluster, pod *core.Pod) {
			pod.DeletionTimestamp = &meta.Time{Time: time.Now()}
			s.setState(pod, ended)
		}, "its Pod was deleted, and not by the jobrunner"},
		"deleted": {func(s *simulatedCluster, pod *core.Pod) {
			must.Succeed(s.t, s.client.core.Pods("gpucloud").Delete(s.t.Context(), pod.Name, meta.DeleteOptions{}))
		}, "its Pod was deleted, and not by the jobrunner"},
	} {
		t.Run(name, func(t *testing.T) {
			s := simulate(t)
			pod, process := s.runWorker(workerSpec())
			c.end(s, pod)
			<-process.Done()
			exit := process.Exit().Text
			must.Hold(t, exit == c.want && s.objectCount() == 0, "it ended with", exit, "and", s.objectCount(), "objects are left")
		})
	}
}

// If the API server is unavailable during a stop, the Pod is removed later, even if Stop has already given up.
func TestEndWithoutAnAPIServer(t *testing.T) {
	for name, patience := range map[string]time.Duration{"for a moment": time.Minute, "for long": time.Millisecond, "until the end": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			s := simulate(t)
			s.removeTimeout = patience
			var refusals atomic.Int64
			s.fake.PrependReactor("delete", "*", func(ktesting.Action) (bool, runtime.Object, error) {
				return refusals.Add(1) < 4 || name == "until the end", nil, errors.New("connection refused")
			})
			_, process := s.runWorker(workerSpec())
			process.Stop(0)
			if name == "until the end" {
				must.Hold(t, s.Close(), "the cluster forgets a Pod that it could not remove")
				return
			}
			<-process.Done()
			for deadline := time.Now().Add(time.Minute); s.objectCount() != 0; time.Sleep(time.Millisecond) { // the goroutines of client-go run in real time
				must.Require(t, !time.Now().After(deadline), s.objectCount(), "objects are left")
			}
		})
	}
}

func TestEachOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulate(t)
		var log bytes.Buffer
		s.Logger = slog.New(slog.NewTextHandler(&log, nil))
		var outage atomic.Bool
		connections := make(chan *watch.FakeWatcher, 1)
		s.fake.PrependWatchReactor("*", func(a ktesting.Action) (bool, watch.Interface, error) {
			if outage.Load() || a.(ktesting.WatchActionImpl).ListOptions.SendInitialEvents != nil {
				return true, nil, errors.New("connection refused")
			}
			w := watch.NewFake()
			connections <- w
			return true, w, nil
		})
		must.Do(s.Orphans(t.Context(), "d1"))(t)
		for n := range 2 {
			time.Sleep(time.Hour) // in virtual time
			outage.Store(true)
			(<-connections).Stop()
			time.Sleep(time.Hour)
			synctest.Wait()
			must.Equal(t, strings.Count(log.String(), "can't be watched"), n+1, "logged errors")
			outage.Store(false)
		}
		var tries atomic.Int64
		s.fake.PrependReactor("list", "nodes", func(ktesting.Action) (bool, runtime.Object, error) {
			tries.Add(1)
			return true, nil, errors.New("forbidden")
		})
		must.ErrorContains(t, must.Err(s.Inventory(t.Context())), "forbidden")
		before := tries.Load()
		time.Sleep(time.Hour)
		must.Equal(t, tries.Load(), before, "the number of node lists an hour after Inventory failed")
		must.Hold(t, !s.Close(), "Pods are left")
	})
	must.Hold(t, !klog.Background().Enabled(), "client-go logs the outage again")
}

func node(name, product string, gpus int64, ready core.ConditionStatus) *core.Node {
	return &core.Node{
		ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{gpuLabel: product, memoryLabel: "1024", driverLabel: "570.1", cudaLabel: "12.8"}},
		Status: core.NodeStatus{
			Allocatable: core.ResourceList{gpuResource: *resource.NewQuantity(gpus, resource.DecimalSI)},
			Conditions:  []core.NodeCondition{{Type: core.NodeReady, Status: ready, Message: "kubelet stopped posting"}},
		},
	}
}

// The inventory follows the nodes' allocatable GPUs, by catalog type. A worker's Pod requires a node with its GPU type.
func TestInventory(t *testing.T) {
	s := simulate(t, node("b", "NVIDIA-A100-SXM4-80GB", 2, core.ConditionTrue), node("a", "NVIDIA-L4", 1, core.ConditionFalse), node("c", "NVIDIA-A100-SXM4-80GB", 1, core.ConditionTrue), node("d", "", 1, core.ConditionTrue))
	in := must.Do(s.Inventory(t.Context()))(t)
	devices := in.Devices()
	must.Hold(t, len(devices) == 5 && devices[0].TypeID == "NVIDIA L4" && strings.Contains(devices[0].Fault, "node a is not ready") &&
		devices[1].TypeID == "NVIDIA A100-SXM4-80GB" && devices[1].Fault == "" && devices[1].Memory == 1<<30, "the devices are", devices)
	must.Contain(t, devices[4].Fault, "its node d has no label nvidia.com/gpu.product")
	must.Equal(t, in.Driver(), gpu.Driver{Version: "570.1", CUDA: "12.8"})
	allocator := gpu.NewAllocator(in)
	allocator.Close()
	must.ErrorContains(t, must.Err(allocator.Acquire(gpu.Request{Types: []string{"NVIDIA A100-SXM4-80GB"}, Count: 4}, "w")), "and the Kubernetes cluster has 3 × NVIDIA A100-SXM4-80GB")
	must.ErrorContains(t, must.Err(allocator.Acquire(gpu.Request{Types: []string{"NVIDIA A100-SXM4-80GB"}, Count: 3}, "w")), "a worker asks for 3 GPUs of one type, 3 on the same node, and the nodes have 3 × NVIDIA A100-SXM4-80GB, distributed differently")
	w := workerSpec()
	w.Devices, w.Env["NVIDIA_VISIBLE_DEVICES"] = devices[1:2], "all"
	must.Equal(t, s.environment(w)["NVIDIA_VISIBLE_DEVICES"], "", "a template's choice of GPUs")
	pod, _ := s.runWorker(w)
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0]
	limit := pod.Spec.Containers[0].Resources.Limits[gpuResource]
	must.Hold(t, limit.Value() == 1 && terms.Key == gpuLabel && slices.Equal(terms.Values, []string{"NVIDIA-A100-SXM4-80GB"}), "the Pod's limit is", limit, "and its node needs", terms)
	for len(in.Changed()) > 0 {
		<-in.Changed()
	}
	must.Succeed(t, s.client.core.Nodes().Delete(t.Context(), "a", meta.DeleteOptions{}))
	<-in.Changed()
	devices = in.Devices()
	must.Hold(t, len(devices) == 4, "after a node was deleted the devices are", devices, "want four")
}

// If the stream breaks within a line, the log has that line once, and whole.
func TestBrokenLog(t *testing.T) {
	const log = "2026-01-02T03:04:05.000000001Z first\n2026-01-02T03:04:05.000000002Z the second line\n2026-01-02T03:04:06Z no end"
	broken := errors.New("the API server ended")
	for cut := range len(log) {
		got := new(markedLog)
		last, err := run.CopyLines(io.MultiReader(strings.NewReader(log[:cut]), iotest.ErrReader(broken)), time.Time{}, got)
		must.Require(t, errors.Is(err, broken), "the broken stream returns", err)
		must.Do(run.CopyLines(strings.NewReader(log), last, got))(t)
		must.Equal(t, got.String(), "first\nthe second line\nno end\n", "cut after", cut, "bytes", got)
	}
}

// Lines of stdout and stderr that arrive out of order aren't repeated.
func TestLogOutOfOrder(t *testing.T) {
	const log = "2026-01-02T03:04:05.000000002Z out\n2026-01-02T03:04:05.000000001Z err\n"
	got := new(markedLog)
	last, err := run.CopyLines(strings.NewReader(log), time.Time{}, got)
	must.Require(t, err == nil && len(got.marks) == 2 && got.marks[1] == "2026-01-02T03:04:05.000000002Z", err, "marks", got.marks)
	_, err = run.CopyLines(strings.NewReader(log), last, got)
	must.Hold(t, err == nil && len(got.marks) == 2, err, "lines", got)
}

func TestGuideGrantsUsedPermissions(t *testing.T) {
	yes := true
	self := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "self", Namespace: "gpucloud", OwnerReferences: []meta.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "set", Controller: &yes}}}}
	s := simulateAs(t, "self", self)
	// The worker's Pod has to be the only one.
	must.Succeed(t, s.client.core.Pods("gpucloud").Delete(t.Context(), "self", meta.DeleteOptions{}))
	must.Do(s.Inventory(t.Context()))(t)
	for i := range 2 {
		w := workerSpec()
		w.Mounts = []run.Mount{{Name: "volume-v", Size: int64(10 + i), Path: "/v"}}
		_, process := s.runWorker(w)
		process.Stop(0)
	}
	must.Do(s.RemoveRun(t.Context(), "run-1"))(t)
	must.Succeed(t, s.RemoveVolume(t.Context(), "volume-v"))
	s.runPod(podSpec("d1"))
	used := map[string]bool{}
	for _, a := range s.fake.Actions() {
		resource := a.GetResource().Resource
		if a.GetSubresource() != "" {
			resource += "/" + a.GetSubresource()
		}
		used[resource+" "+a.GetVerb()] = true
	}
	delete(used, "version get")        // everyone has this permission
	delete(used, "pods/status update") // used only by the test
	guide := must.ReadFile(t, "../../../docs/guides/kubernetes.md")
	granted := map[string]bool{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n# role.yaml\n(.*?)```").FindAllStringSubmatch(string(guide), -1) {
		for document := range strings.SplitSeq(block[1], "\n---\n") {
			var role struct {
				Rules []struct {
					APIGroups        []string `yaml:"apiGroups"`
					Resources, Verbs []string
				}
			}
			must.Succeed(t, yaml.Unmarshal([]byte(document), &role))
			for _, rule := range role.Rules {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						granted[resource+" "+verb] = true
					}
				}
			}
		}
	}
	must.Hold(t, maps.Equal(used, granted), "used", slices.Sorted(maps.Keys(used)), "granted by the guide", slices.Sorted(maps.Keys(granted)))
}
