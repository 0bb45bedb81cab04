package fire

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
)

// fate is what becomes of one request.
type fate string

const (
	passes        fate = ""
	droppedBefore fate = "connection dropped before the request was processed"
	droppedAfter  fate = "connection dropped after the request was processed"
	refused500    fate = "500, nothing done"
	refused502    fate = "502, nothing done"
	refused503    fate = "503, nothing done"
	wait503       fate = "503 with Retry-After, nothing done"
	done500       fate = "500, and it was done"
	done502       fate = "502, and it was done"
	done503       fate = "503, and it was done"
	tooMany       fate = "429"
	tooManyWait   fate = "429 with Retry-After"
	slow          fate = "no answer in time, and it was done"
	truncated     fate = "the answer breaks off"
	notFoundYet   fate = "404 of what was made just now"
	reordered     fate = "the list is in another order"
	stoppedBefore fate = "SIGINT before the request was processed"
	stoppedAfter  fate = "SIGINT after the request was processed"
	killedBefore  fate = "kill -9 before the request was processed"
	killedAfter   fate = "kill -9 after the request was processed"
	late          fate = "the answer comes late, after others"
	drips         fate = "the body comes in drops"
	hangs         fate = "the body stops in the middle and never ends"
)

var fates = []fate{
	droppedBefore, droppedAfter, refused500, refused502, refused503, wait503, done500, done502, done503, tooMany, tooManyWait,
	slow, truncated, notFoundYet, reordered, stoppedBefore, stoppedAfter, killedBefore, killedAfter, late, drips, hangs,
}

const upstream = "<html>upstream</html>"

// refuses answers in the deployment's place, and loses answers after it has served the request.
func refuses(status int, retryAfter string) *wirefault.Fault {
	f := loses(status)
	f.Stub, f.Answer.Header = true, map[string]string{"Retry-After": retryAfter}
	return f
}

func loses(status int) *wirefault.Fault {
	body := upstream
	return &wirefault.Fault{Answer: wirefault.Edit{Status: status, Body: &body}}
}

// faults are what the network does to a request by its fate.
var faults = map[fate]*wirefault.Fault{
	droppedBefore: {Drop: "before"}, droppedAfter: {Drop: "after"},
	stoppedBefore: {Drop: "before"}, killedBefore: {Drop: "before"}, killedAfter: {Drop: "after"},
	refused500: refuses(500, ""), refused502: refuses(502, ""), refused503: refuses(503, ""), wait503: refuses(503, "2"),
	done500: loses(500), done502: loses(502), done503: loses(503),
	tooMany: refuses(429, ""), tooManyWait: refuses(429, "2"), notFoundYet: refuses(404, ""),
	reordered: {Answer: wirefault.Edit{Reverse: true}},
	slow:      {Hold: "after"}, late: {Delay: 3}, drips: {Drip: 0.05}, truncated: {Cut: 10}, hangs: {Stall: 10},
}

// schedule says what becomes of the requests of a scenario. A seed gives the
// same fates each time: that of a request hangs on the part of the scenario, on
// the operation, and on how often it was asked for. Which of the requests that
// an interruption wakes at once comes first, it does not say: a seed may have
// to be run a few times.
type schedule struct {
	seed  uint64
	rate  float64 // part of the requests that something happens to
	depth int     // requests of one operation that something may happen to

	mu    sync.Mutex
	part  string         // of the scenario; each has requests and fates of its own
	asked map[string]int // by operation, in this part
	story []string
}

func newSchedule(seed uint64) *schedule {
	r := rand.New(rand.NewPCG(seed, 0))
	return &schedule{seed: seed, rate: []float64{0.05, 0.15, 0.3, 0.6}[r.IntN(4)], depth: 3 + r.IntN(10)}
}

// faultless is a schedule without faults.
func faultless() *schedule { return &schedule{asked: map[string]int{}} }

// begin begins a part of the scenario.
func (s *schedule) begin(part string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part, s.asked = part, map[string]int{}
}

// next is the fate of the next request of an operation, such as GET templates/*,
// and the time that each way of it takes: no two arrive at once, so that they
// arrive in the same order each time.
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

// tell notes what happened, for whoever reads of a failure.
func (s *schedule) tell(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.story = append(s.story, fmt.Sprintf(format, args...))
}

func (s *schedule) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.story, "\n")
}
