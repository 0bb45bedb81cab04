package webhook

import (
	"cmp"
	"maps"
	"sync"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// Limits of the calls in flight. The owner of a call is the owner of the API key that
// submitted the job. The limits per owner keep one owner from blocking others.
const (
	maxCalls       = 128 // of all owners
	maxPerOwner    = 32
	maxPerEndpoint = 8 // per owner
	maxPerHost     = 4 // per owner

	// Endpoints with slow receivers may use only half of the limits, so that they don't delay others.
	maxSlow         = maxCalls / 2
	maxSlowPerOwner = maxPerOwner / 2

	// maxKnownSlow limits the endpoints that are remembered as slow. Above it, all are forgotten.
	maxKnownSlow = 1000
)

// lane is the queue of one owner's calls for one endpoint.
type lane struct{ owner, endpoint string }

// scheduler schedules calls fairly among owners, and an owner's calls among its endpoints. The
// next call is of the owner with the fewest calls in flight. Among several such owners, it is of the
// owner whose latest call began first.
type scheduler struct {
	mu    sync.Mutex
	open  map[lane]int             // calls in flight
	hosts map[engine.OwnerHost]int // calls in flight
	slow  map[lane]bool            // the last call timed out

	turns      int            // number of calls begun
	ownerTurns map[string]int // turns at the latest call
	laneTurns  map[lane]int
}

type load struct {
	calls int
	slow  int // calls of slow endpoints, included in calls
}

func (l load) plus(other load) load { return load{l.calls + other.calls, l.slow + other.slow} }

// choose returns the index of the queue whose call is next. If no call is due within the limits, it
// returns -1 and the time of the earliest later call of a queue within its limits, or zero.
func (s *scheduler) choose(queues []engine.CallQueue, now time.Time) (best int, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	best = -1
	var all load
	owners := map[string]load{}
	for l, n := range s.open {
		laneLoad := load{calls: n}
		if s.slow[l] {
			laneLoad.slow = n
		}
		all, owners[l.owner] = all.plus(laneLoad), owners[l.owner].plus(laneLoad)
	}
	for i, q := range queues {
		l := lane{q.Owner, q.Endpoint}
		owner := owners[q.Owner]
		full := all.calls >= maxCalls || owner.calls >= maxPerOwner || s.open[l] >= maxPerEndpoint
		if full || s.slow[l] && (all.slow >= maxSlow || owner.slow >= maxSlowPerOwner) {
			continue
		}
		if q.Next.After(now) {
			if next.IsZero() || q.Next.Before(next) {
				next = q.Next
			}
			continue
		}
		if best < 0 || s.precedes(owners, q, queues[best]) {
			best = i
		}
	}
	return best, next
}

func (s *scheduler) precedes(owners map[string]load, a, b engine.CallQueue) bool {
	la, lb := lane{a.Owner, a.Endpoint}, lane{b.Owner, b.Endpoint}
	return cmp.Or(
		cmp.Compare(owners[a.Owner].calls, owners[b.Owner].calls),
		cmp.Compare(s.ownerTurns[a.Owner], s.ownerTurns[b.Owner]),
		cmp.Compare(a.Owner, b.Owner),
		cmp.Compare(s.open[la], s.open[lb]),
		cmp.Compare(s.laneTurns[la], s.laneTurns[lb]),
		a.Next.Compare(b.Next),
	) < 0
}

func (s *scheduler) begin(c *engine.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turns++
	l := laneOf(c)
	s.ownerTurns[l.owner], s.laneTurns[l] = s.turns, s.turns
	s.open[l]++
	s.hosts[engine.OwnerHost{Owner: c.Owner, Host: c.Host}]++
}

func (s *scheduler) end(c *engine.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	release(s.open, laneOf(c))
	release(s.hosts, engine.OwnerHost{Owner: c.Owner, Host: c.Host})
}

func release[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

func laneOf(c *engine.Call) lane { return lane{c.Owner, c.Job.Endpoint} }

// recordSpeed remembers whether a receiver is slow.
func (s *scheduler) recordSpeed(c *engine.Call, slow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slow {
		delete(s.slow, laneOf(c))
		return
	}
	if len(s.slow) >= maxKnownSlow {
		clear(s.slow)
	}
	s.slow[laneOf(c)] = true
}

func (s *scheduler) busyHosts() (hosts []engine.OwnerHost) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for host, n := range s.hosts {
		if n >= maxPerHost {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// prune forgets the turns of owners and lanes without calls.
func (s *scheduler) prune(queues []engine.CallQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lanes, owners := map[lane]bool{}, map[string]bool{}
	for l := range s.open {
		lanes[l], owners[l.owner] = true, true
	}
	for _, q := range queues {
		lanes[lane{q.Owner, q.Endpoint}], owners[q.Owner] = true, true
	}
	maps.DeleteFunc(s.laneTurns, func(l lane, _ int) bool { return !lanes[l] })
	maps.DeleteFunc(s.ownerTurns, func(o string, _ int) bool { return !owners[o] })
}
