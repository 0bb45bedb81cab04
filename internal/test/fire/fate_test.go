package fire

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
)

// fate is the fault that a request suffers.
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

// refuses responds instead of the deployment. loses replaces the response of a processed request.
func refuses(status int, retryAfter string) *wirefault.Fault {
	f := loses(status)
	f.Stub, f.Answer.Header = true, map[string]string{"Retry-After": retryAfter}
	return f
}

func loses(status int) *wirefault.Fault {
	body := upstream
	return &wirefault.Fault{Answer: wirefault.Edit{Status: status, Body: &body}}
}

// faults implement the fates. Other fates need no fault of the network.
var faults = map[fate]*wirefault.Fault{
	droppedBefore: {Drop: "before"}, droppedAfter: {Drop: "after"},
	stoppedBefore: {Drop: "before"}, killedBefore: {Drop: "before"}, killedAfter: {Drop: "after"},
	refused500: refuses(500, ""), refused502: refuses(502, ""), refused503: refuses(503, ""), wait503: refuses(503, "2"),
	done500: loses(500), done502: loses(502), done503: loses(503),
	tooMany: refuses(429, ""), tooManyWait: refuses(429, "2"), notFoundYet: refuses(404, ""),
	reordered: {Answer: wirefault.Edit{Reverse: true}},
	slow:      {Hold: "after"}, late: {Delay: 3}, drips: {Drip: 0.05}, truncated: {Cut: 10}, hangs: {Stall: 10},
}

// schedule determines the fates of the requests of a scenario. A fate depends only on the
// seed, the part of the scenario, the operation and the number of its earlier requests. The
// order of requests after an interruption isn't deterministic, so a seed may need several runs.
type schedule struct {
	seed  uint64
	rate  float64 // share of the requests with a fault
	depth int     // number of requests per operation that may have a fault

	mu    sync.Mutex
	part  string         // current part of the scenario
	asked map[string]int // requests in this part by operation
	log   []string
}

func newSchedule(seed uint64) *schedule {
	r := rand.New(rand.NewPCG(seed, 0))
	return &schedule{seed: seed, rate: []float64{0.05, 0.15, 0.3, 0.6}[r.IntN(4)], depth: 3 + r.IntN(10)}
}

// faultless is a schedule without faults.
func faultless() *schedule { return &schedule{asked: map[string]int{}} }

// begin starts a part of the scenario.
func (s *schedule) begin(part string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part, s.asked = part, map[string]int{}
}

// next returns the fate of the next request of an operation, such as GET templates/*, and the
// latency of each direction. Different latencies make the order of arrival deterministic.
func (s *schedule) next(operation string) (f fate, takes time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.asked[operation]
	s.asked[operation]++
	mix := uint64(14695981039346656037) // FNV-1a
	for _, c := range []byte(s.part + " " + operation) {
		mix = (mix ^ uint64(c)) * 1099511628211
	}
	r := rand.New(rand.NewPCG(s.seed, mix+uint64(n)))
	takes = time.Duration(r.IntN(int(50 * time.Millisecond)))
	if n >= s.depth || r.Float64() >= s.rate {
		return passes, takes
	}
	return fates[r.IntN(len(fates))], takes
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
