package fire

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// nodeSource returns the nodes of a configuration, or of its changed form.
type nodeSource func(v api.Version, changed bool) []node

// configurations are what the schedules apply. Most kinds without unique names occur twice with equal settings, so
// that a provider could confuse the objects.
var configurations = []struct {
	name  string
	nodes nodeSource
}{
	{"serverless", serverless},
	{"pods", pods},
}

// choose returns before for a configuration and after for its changed form.
func choose(changed bool, before, after any) any {
	if changed {
		return after
	}
	return before
}

func volume(address string, changed bool) node {
	return node{address, "gpucloud_network_volume", nil, func(func(string) any) map[string]any {
		return map[string]any{"name": "models", "size": choose(changed, 10, 20), "data_center": "EU-RO-1"}
	}}
}

func auth(name any) node {
	return node{"auth", "gpucloud_registry_auth", nil, func(func(string) any) map[string]any {
		return map[string]any{"name": name, "username": "u", "password": "planted-password"}
	}}
}

func serverless(_ api.Version, changed bool) []node {
	endpoint := func(address string) node {
		return node{address, "gpucloud_endpoint", []string{"template", "volume_a"}, func(id func(string) any) map[string]any {
			return map[string]any{
				"name": "work", "template_id": id("template"), "network_volumes": []any{id("volume_a")}, "data_center_ids": []any{"EU-RO-1"},
				"gpu": map[string]any{"type_ids": []any{"NVIDIA L4"}}, "workers": map[string]any{"min": 0, "max": choose(changed, 1, 2)},
			}
		}}
	}
	return []node{
		auth(choose(changed, "images", "other-images")), volume("volume_a", changed), volume("volume_b", changed),
		{"template", "gpucloud_template", []string{"auth"}, func(id func(string) any) map[string]any {
			return map[string]any{
				"name": "work", "image": "builtin/echo", "serverless": true, "registry": id("auth"), "env": map[string]any{"A": choose(changed, "1", "2")},
			}
		}},
		endpoint("endpoint_a"), endpoint("endpoint_b"),
	}
}

// pods has CPU pods, which don't wait for GPUs, and v2's own kinds. The auth keeps its name, because pods use it.
func pods(v api.Version, changed bool) []node {
	pod := func(address string, extra map[string]any) node {
		return node{address, "gpucloud_pod", []string{"auth", "volume_a"}, func(id func(string) any) map[string]any {
			config := map[string]any{
				"name": "work", "image": "builtin/echo", "cpu": map[string]any{"id": "cpu3c", "vcpu_count": 2}, "registry": id("auth"),
				"mounts": map[string]any{"network": []any{map[string]any{"volume_id": id("volume_a"), "path": "/data"}}},
			}
			maps.Copy(config, extra)
			return config
		}}
	}
	env := map[string]any{"env": map[string]any{"A": choose(changed, "1", "2")}}
	nodes := []node{
		auth("images"), volume("volume_a", changed), pod("pod_a", env), pod("pod_b", env),
		pod("pod_stops", map[string]any{"desired_state": choose(changed, api.PodRunning, api.PodExited)}),
	}
	if v == api.V1 {
		return nodes
	}
	delegation := func(address string) node {
		return node{address, "gpucloud_registry_delegation", nil, func(func(string) any) map[string]any {
			return map[string]any{"name": choose(changed, "images", "other-images"), "resource": "arn:aws:ecr:us-east-2:123456789012:repository/app"}
		}}
	}
	cluster := func(address string) node {
		return node{address, "gpucloud_cluster", nil, func(func(string) any) map[string]any {
			return map[string]any{
				"name": choose(changed, "ring", "other-ring"), "type": "TRAINING", "image": "builtin/echo",
				"compute": map[string]any{"gpu_type_id": "NVIDIA L4", "gpu_count_per_pod": 1, "pod_count": 2},
			}
		}}
	}
	nodes = append(nodes,
		node{"secret", "gpucloud_secret", nil, func(func(string) any) map[string]any {
			return map[string]any{"name": "token", "description": choose(changed, "one", "two"), "value_wo": choose(changed, "first", "second"), "value_wo_version": choose(changed, 1, 2)}
		}},
		node{"global", "gpucloud_global_volume", nil, func(func(string) any) map[string]any {
			return map[string]any{"name": choose(changed, "models", "other-models")}
		}})
	return append(nodes, delegation("delegation_a"), delegation("delegation_b"), cluster("cluster_a"), cluster("cluster_b"),
		node{"keys", "gpucloud_ssh_keys", nil, func(func(string) any) map[string]any {
			return map[string]any{"keys": []any{ownKey, choose(changed, otherOwnKey, thirdOwnKey)}, "keep_others": true}
		}})
}

// SSH keys of the account: configured ones and a foreign one.
const (
	keyBytes    = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl "
	ownKey      = keyBytes + "me@example.com"
	otherOwnKey = keyBytes + "other@example.com"
	thirdOwnKey = keyBytes + "third@example.com"
	foreignKey  = keyBytes + "somebody@example.com"
)

// withoutForeign removes the foreign key and reports whether it was present.
func withoutForeign(keys []string) (own []string, found bool) {
	own = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return key == foreignKey })
	return own, len(own) < len(keys)
}

// fate is the fault that is injected into a request.
type fate string

const (
	passes        fate = ""
	droppedBefore fate = "connection dropped before the request was processed"
	droppedAfter  fate = "connection dropped after the request was processed"
	refused500    fate = "500, not processed"
	refused502    fate = "502, not processed"
	refused503    fate = "503, not processed"
	wait503       fate = "503 with Retry-After, not processed"
	done500       fate = "500, but processed"
	done502       fate = "502, but processed"
	done503       fate = "503, but processed"
	tooMany       fate = "429"
	tooManyWait   fate = "429 with Retry-After"
	slow          fate = "processed, but no response in time"
	truncated     fate = "the response is truncated"
	notFoundYet   fate = "404 for a recently created object"
	reordered     fate = "the list is reversed"
	stoppedBefore fate = "SIGINT before the request was processed"
	stoppedAfter  fate = "SIGINT after the request was processed"
	killedBefore  fate = "kill -9 before the request was processed"
	killedAfter   fate = "kill -9 after the request was processed"
	late          fate = "the response is late, after others"
	drips         fate = "the body arrives slowly"
	hangs         fate = "the body stops in the middle"
)

var fates = []fate{
	droppedBefore, droppedAfter, refused500, refused502, refused503, wait503, done500, done502, done503, tooMany, tooManyWait,
	slow, truncated, notFoundYet, reordered, stoppedBefore, stoppedAfter, killedBefore, killedAfter, late, drips, hangs,
}

const upstream = "<html>upstream</html>"

// refusal answers a request that doesn't reach the deployment; loss replaces a response of the deployment.
func refusal(status int, retryAfter string) *wirefault.Fault {
	f := loss(status)
	f.Stub, f.Answer.Header = true, map[string]string{"Retry-After": retryAfter}
	return f
}

func loss(status int) *wirefault.Fault {
	body := upstream
	return &wirefault.Fault{Answer: wirefault.Edit{Status: status, Body: &body}}
}

// faults implement the fates. Other fates need no fault of the network.
var faults = map[fate]*wirefault.Fault{
	droppedBefore: {Drop: "before"}, droppedAfter: {Drop: "after"},
	stoppedBefore: {Drop: "before"}, killedBefore: {Drop: "before"}, killedAfter: {Drop: "after"},
	refused500: refusal(500, ""), refused502: refusal(502, ""), refused503: refusal(503, ""), wait503: refusal(503, "2"),
	done500: loss(500), done502: loss(502), done503: loss(503),
	tooMany: refusal(429, ""), tooManyWait: refusal(429, "2"), notFoundYet: refusal(404, ""),
	reordered: {Answer: wirefault.Edit{Reverse: true}},
	slow:      {Hold: "after"}, late: {Delay: 3}, drips: {Drip: 0.05}, truncated: {Cut: 10}, hangs: {Stall: 10},
}

// schedule determines the fates of requests by the seed, the scenario's part, the operation and the number of its
// earlier requests. An interruption makes the order random, so a seed may need several runs.
type schedule struct {
	seed  uint64
	rate  float64 // share of the requests with a fault
	depth int     // only the first depth requests of an operation, in each part, may have a fault

	mu       sync.Mutex
	part     string         // current part of the scenario
	requests map[string]int // number of requests in this part, by operation
	log      []string
}

// faultless is a schedule without faults.
func faultless() *schedule { return &schedule{requests: map[string]int{}} }

func (s *schedule) begin(part string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part, s.requests = part, map[string]int{}
}

// next returns the fate and latency of an operation's next request. All latencies differ, which fixes their order.
func (s *schedule) next(operation string) (f fate, latency time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.requests[operation]
	s.requests[operation]++
	mix := uint64(14695981039346656037) // FNV-1a
	for _, c := range []byte(s.part + " " + operation) {
		mix = (mix ^ uint64(c)) * 1099511628211
	}
	r := rand.New(rand.NewPCG(s.seed, mix+uint64(n)))
	latency = time.Duration(r.IntN(int(50 * time.Millisecond)))
	if n >= s.depth || r.Float64() >= s.rate {
		return passes, latency
	}
	return fates[r.IntN(len(fates))], latency
}

// logf records an event, to explain a failure.
func (s *schedule) logf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *schedule) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.log, "\n")
}
