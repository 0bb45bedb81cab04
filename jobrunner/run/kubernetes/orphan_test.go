package kubernetes

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/livelog"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/run"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// podSpec is the pod p1 in its third generation. If folderID is "", its jobrunner has no data folder.
func podSpec(folderID string) run.Spec {
	return run.Spec{
		ID: "p1", Log: new(markedLog), Container: store.Container{Image: "i", Env: map[string]string{"RUNPOD_PUBLIC_IP": "127.0.0.1"}},
		Pod: &run.Pod{Run: 3, Ports: []store.PodPort{{Private: 8080, Public: 8080, Protocol: "http"}}, FolderID: folderID},
	}
}

// runPod starts a pod, and returns once it runs.
func (s *simulatedCluster) runPod(w run.Spec) (created *core.Pod, process run.Process) {
	s.t.Helper()
	created, result := s.begin(w)
	s.setState(created, running)
	select {
	case r := <-result:
		s.t.Fatalf("it runs without an address: %v", r.err)
	case <-time.After(10 * time.Millisecond): // a Start that returns later isn't noticed
	}
	created.Status.PodIP = "10.1.2.3"
	s.setState(created, running)
	r := <-result
	must.Succeed(s.t, r.err)
	return created, r.process
}

// A pod of the API becomes a Kubernetes Pod, with the id of the data folder as a label and its own address in a variable.
func TestPod(t *testing.T) {
	s := simulate(t)
	created, process := s.runPod(podSpec("d1"))
	l := created.Labels
	must.Hold(t, l[folderLabel] == "d1" && l[podLabel] == "p1" && l[podGenerationLabel] == "3" && l[runLabel] == "", "the Pod's labels are", l)
	c := created.Spec.Containers[0]
	must.Hold(t, len(c.Ports) == 1 && c.Ports[0].ContainerPort == 8080 && len(c.Env) == 1 && c.Env[0].Name == "RUNPOD_PUBLIC_IP" &&
		c.Env[0].ValueFrom.FieldRef.FieldPath == "status.podIP", "the container is", c, "want the port 8080 and the Pod's own address")
	must.Equal(t, process.Address(), "10.1.2.3")
	process.Stop(time.Second)
	exit := process.Exit()
	must.Hold(t, exit == (run.Exit{Text: run.Stopped}) && s.objectCount() == 0, "it ended with", exit, "and", s.objectCount(), "objects are left")
}

// A cluster member's variables have its address once it starts.
func TestMemberAddressVariables(t *testing.T) {
	s := simulate(t)
	w := podSpec("d1")
	w.Pod.AddressVariables = map[string]string{"NODE_ADDR": "", "HOST_NODE_ADDR": ":29400"}
	created, _ := s.runPod(w)
	var variables []string
	for _, v := range created.Spec.Containers[0].Env {
		variables = append(variables, v.Name+"="+v.Value)
	}
	// Kubernetes expands only variables that come earlier.
	must.Equal(t, variables, []string{"RUNPOD_PUBLIC_IP=", "HOST_NODE_ADDR=$(RUNPOD_PUBLIC_IP):29400", "NODE_ADDR=$(RUNPOD_PUBLIC_IP)"})
}

// A later run with the data folder adopts or removes a pod's objects. Other objects are removed with their run.
func TestOrphans(t *testing.T) {
	s := simulate(t)
	created, _ := s.runPod(podSpec("d1"))
	n, err := s.RemoveRun(t.Context(), "run-1")
	must.Require(t, n == 0 && err == nil && s.objectCount() == 2, n, err, s.objectCount(), "objects are left")
	next := must.Do(open(t.Context(), run.ClusterConfig{Run: "run-2"}, "gpucloud", "", s.client))(t)
	t.Cleanup(func() { next.Close() })
	orphans, err := next.Orphans(t.Context(), "d1")
	must.Require(t, err == nil && len(orphans) == 1 && orphans[0].Pod == "p1" && orphans[0].Run == 3, "the orphans are", orphans, err, "want p1 in generation 3")
	adopted := orphans[0].Adopt(new(markedLog), "")
	must.Equal(t, must.Do(next.Orphans(t.Context(), "d1"))(t), nil, "the orphans after the adoption")
	s.setState(created, core.ContainerState{Terminated: &core.ContainerStateTerminated{}})
	<-adopted.Done()
	must.Hold(t, adopted.Exit() == (run.Exit{Text: "exit status 0", OK: true}) && s.objectCount() == 0,
		adopted.Exit(), s.objectCount(), "objects are left")
	s.runPod(podSpec("d1"))
	other := must.Do(open(t.Context(), run.ClusterConfig{Run: "run-3"}, "gpucloud", "", s.client))(t)
	t.Cleanup(func() { other.Close() })
	must.Equal(t, must.Do(other.Orphans(t.Context(), "d2"))(t), nil, "the orphans of another data folder")
	orphans, err = other.Orphans(t.Context(), "d1")
	must.Require(t, err == nil && len(orphans) == 1, "the orphans are", orphans, err, "want one")
	orphans[0].Remove()
	must.Equal(t, s.objectCount(), 0, "the number of objects that are left")
	s.runPod(podSpec(""))
	n, err = s.RemoveRun(t.Context(), "run-1")
	must.Hold(t, n == 1 && err == nil && s.objectCount() == 0, n, "the error is", err, "and", s.objectCount(), "objects are left")
}

// claims returns the size and access mode of each claim, by name.
func (s *simulatedCluster) claims() map[string]string {
	s.t.Helper()
	list := must.Do(s.client.core.PersistentVolumeClaims("gpucloud").List(s.t.Context(), meta.ListOptions{}))(s.t)
	all := map[string]string{}
	for _, c := range list.Items {
		size := c.Spec.Resources.Requests[core.ResourceStorage]
		all[c.Name] = size.String() + " " + string(c.Spec.AccessModes[0])
	}
	return all
}

// A volume is a claim. Its first mount creates it, it only grows, and only the volume's removal deletes it.
func TestVolumes(t *testing.T) {
	s := simulate(t)
	s.StorageClass.Value = "fast"
	for _, step := range []struct {
		mount run.Mount
		want  string
	}{
		{run.Mount{Name: "volume-v1", Size: 10, Path: "/data"}, "10G ReadWriteMany"},
		{run.Mount{Name: "volume-v1", Size: 20, Path: "/data"}, "20G ReadWriteMany"},
		{run.Mount{Name: "volume-v1", Size: 10, Path: "/data"}, "20G ReadWriteMany"},
		{run.Mount{Name: "pod-p1", Size: 0, Path: "/data"}, "1G ReadWriteOnce"},
	} {
		w := workerSpec()
		w.Mounts = []run.Mount{step.mount}
		created, process := s.runWorker(w)
		c := created.Spec.Containers[0]
		must.Hold(t, len(c.VolumeMounts) == 1 && c.VolumeMounts[0].MountPath == "/data" && created.Spec.Volumes[0].PersistentVolumeClaim.ClaimName == "gpucloud-"+step.mount.Name, "the Pod doesn't mount", step.mount, created.Spec)
		process.Stop(0)
		must.Equal(t, s.claims()["gpucloud-"+step.mount.Name], step.want, "the size of the claim of", step.mount)
	}
	err := s.ResizeVolume(t.Context(), "volume-v1", 30)
	must.Hold(t, err == nil && s.claims()["gpucloud-volume-v1"] == "30G ReadWriteMany", "after growing to 30 GB the claims are", s.claims(), err)
	for range 2 { // the second is a no-op
		err := s.RemoveVolume(t.Context(), "volume-v1")
		must.Hold(t, err == nil, "removing the volume returns", err)
		err = s.ResizeVolume(t.Context(), "volume-v1", 40)
		must.Hold(t, err == nil, "growing a removed volume returns", err)
	}
	all := s.claims()
	must.Hold(t, len(all) == 1, "the claims are", all, "want the pod's alone")
}

// A Pod must not get a claim that is still being deleted: it belongs to an earlier volume of this name.
func TestDeletedClaim(t *testing.T) {
	now := meta.Now()
	s := simulate(t, &core.PersistentVolumeClaim{ObjectMeta: meta.ObjectMeta{Name: "gpucloud-pod-p1", Namespace: "gpucloud", DeletionTimestamp: &now, Finalizers: []string{"f"}}})
	w := workerSpec()
	w.Mounts = []run.Mount{{Name: "pod-p1", Size: 10, Path: "/data"}}
	_, err := s.Start(t.Context(), w)
	must.Hold(t, err != nil && strings.Contains(err.Error(), "is still being deleted") && s.objectCount() == 0, "the error is", err, "and", s.objectCount(), "objects are left")
}

// The CPU flavor and the disk are limits, and reserved unless the cluster is overcommitted. Sizes have no maximum.
func TestResources(t *testing.T) {
	s := simulate(t)
	w := workerSpec()
	w.Disk = math.MaxInt64 / 4
	limit := s.resources(w).Limits[core.ResourceEphemeralStorage]
	must.Hold(t, limit.AsApproximateFloat64() > 1e27 && limit.Cmp(storage(w.Disk)) == 0, "a huge disk has the limit", limit.String())
	w.VCPUs, w.Memory, w.Disk = 2, 4, 50
	for reserve, reserved := range map[string][]string{"": {"2", "4G", "50G"}, run.ReserveNone: {"0", "0", "0"}} {
		s.Reserve.Value = reserve
		r := s.resources(w)
		show := func(l core.ResourceList) []string {
			return []string{l.Cpu().String(), l.Memory().String(), l.StorageEphemeral().String()}
		}
		limits := show(r.Limits)
		must.Hold(t, slices.Equal(limits, []string{"2", "4G", "50G"}) && len(r.Limits) == 3, "limits", limits)
		got := show(r.Requests)
		must.Hold(t, slices.Equal(got, reserved) && len(r.Requests) == 3, "reserve:", reserve, "reserves", got)
	}
}

func ownedBy(apiVersion, kind, name string) []meta.OwnerReference {
	yes := true
	return []meta.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: "uid", Controller: &yes}}
}

// The jobrunner's Pod owns workers. With a data folder, pods outlive the jobrunner, so its controller owns them.
func TestOwners(t *testing.T) {
	metaOf := func(name string, owners []meta.OwnerReference) meta.ObjectMeta {
		return meta.ObjectMeta{Name: name, Namespace: "gpucloud", OwnerReferences: owners}
	}
	for name, c := range map[string]struct {
		objects     []runtime.Object
		worker, pod string // owners
		warning     string
	}{
		"a Deployment": {[]runtime.Object{
			&core.Pod{ObjectMeta: metaOf("self", ownedBy("apps/v1", "ReplicaSet", "set"))}, &apps.ReplicaSet{ObjectMeta: metaOf("set", ownedBy("apps/v1", "Deployment", "jobrunner"))},
		}, "Pod self", "Deployment jobrunner", ""},
		"a StatefulSet": {[]runtime.Object{&core.Pod{ObjectMeta: metaOf("self", ownedBy("apps/v1", "StatefulSet", "jobrunner"))}}, "Pod self", "StatefulSet jobrunner", ""},
		"a Pod alone":   {[]runtime.Object{&core.Pod{ObjectMeta: metaOf("self", nil)}}, "Pod self", "Pod self", ""},
		"no ReplicaSet": {[]runtime.Object{&core.Pod{ObjectMeta: metaOf("self", ownedBy("apps/v1", "ReplicaSet", "set"))}}, "Pod self", "Pod self", "pods end with this Pod"},
		"no such Pod":   {nil, "", "", "Pods may be left"},
	} {
		t.Run(name, func(t *testing.T) {
			s := simulateAs(t, "self", c.objects...)
			log := new(livelog.Log)
			s.Logger, s.owners = slog.New(slog.NewTextHandler(log, nil)), owners{}
			s.findOwners(t.Context())
			must.Hold(t, strings.Contains(log.String(), c.warning) && (log.String() == "") == (c.warning == ""), "the log is", log)
			for kind, w := range map[string]run.Spec{"worker": workerSpec(), "pod": podSpec("d1"), "temporary pod": podSpec("")} {
				o := must.Do(s.build(w))(t)
				got := ""
				for _, owner := range o.pod.OwnerReferences {
					got += owner.Kind + " " + owner.Name
				}
				must.Equal(t, got, map[string]string{"worker": c.worker, "pod": c.pod, "temporary pod": c.worker}[kind], kind)
			}
		})
	}
}

// A cancelled start leaves no object, and the log says what it waited for.
func TestStartIsCancelled(t *testing.T) {
	s := simulate(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := workerSpec()
	log := new(markedLog)
	w.Log = log
	result := make(chan error, 1)
	go func() {
		_, err := s.Start(ctx, w)
		result <- err
	}()
	for !strings.Contains(log.String(), "0/1 nodes are available") {
		list := must.Do(s.client.core.Pods("gpucloud").List(t.Context(), meta.ListOptions{}))(t)
		for _, pod := range list.Items {
			pod.Status.Conditions = []core.PodCondition{{Type: core.PodScheduled, Status: core.ConditionFalse, Message: "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."}}
			must.Do(s.client.core.Pods("gpucloud").UpdateStatus(t.Context(), &pod, meta.UpdateOptions{}))(t)
		}
		time.Sleep(time.Millisecond) // the goroutines of client-go run in real time
	}
	stop()
	err := <-result
	must.Hold(t, errors.Is(err, context.Canceled) && s.objectCount() == 0, "the error is", err, "and", s.objectCount(), "objects are left")
	ctx, stop = context.WithCancel(t.Context())
	s.client.core = cancelling{CoreV1Interface: s.client.core, t: t, cancel: stop}
	must.ErrorIs(t, must.Err(s.Start(ctx, w)), context.Canceled)
}

// cancelling cancels the start while the API server gets the Pod's creation.
type cancelling struct {
	coreclient.CoreV1Interface
	coreclient.PodInterface
	t      *testing.T
	cancel context.CancelFunc
}

func (c cancelling) Pods(namespace string) coreclient.PodInterface {
	c.PodInterface = c.CoreV1Interface.Pods(namespace)
	return c
}

func (c cancelling) Create(ctx context.Context, pod *core.Pod, o meta.CreateOptions) (*core.Pod, error) {
	c.cancel()
	must.Succeed(c.t, ctx.Err(), "a cancelled creation may succeed after the Pod's removal")
	return c.PodInterface.Create(ctx, pod, o)
}

// A later run removes the objects of a killed run, and no others.
func TestRemoveRun(t *testing.T) {
	s := simulate(t)
	s.runWorker(workerSpec())
	n, err := s.RemoveRun(t.Context(), "run-0")
	must.Hold(t, n == 0 && err == nil && s.objectCount() == 3, n, "the error is", err, "and", s.objectCount(), "objects are left")
	n, err = s.RemoveRun(t.Context(), "run-1")
	must.Hold(t, n == 1 && err == nil && s.objectCount() == 0, n, "the error is", err, "and", s.objectCount(), "objects are left")
}
