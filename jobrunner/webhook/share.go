package webhook

import (
	"cmp"
	"maps"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/engine"
)

// Bounds on the calls under way. An owner is who submitted the job; a call of
// an owner can only use up what is the owner's own share.
const (
	maxCalls       = 128 // of all owners
	maxPerOwner    = 32
	maxPerEndpoint = 8 // of an owner
	maxPerHost     = 4 // likewise

	// Endpoints whose receivers did not answer in time share half of the room:
	// they wait for each other, and others do not wait for them.
	maxSlow         = maxCalls / 2
	maxSlowPerOwner = maxPerOwner / 2

	// maxKnownSlow bounds the endpoints that are remembered as slow; beyond it all
	// are forgotten.
	maxKnownSlow = 1000
)

// lane is where calls wait for each other: an endpoint, for one owner.
type lane struct{ owner, endpoint string }

// share divides the calls under way among owners, and those of an owner among
// its endpoints. Next is whoever has the fewest calls under way; among equals,
// whoever was served longest ago.
type share struct {
	open  map[lane]int
	hosts map[engine.BusyHost]int
	slow  map[lane]bool // the last call was not answered in time

	turns      int // calls begun so far
	ownerTurns map[string]int
	laneTurns  map[lane]int
}

func newShare() share {
	return share{
		open: map[lane]int{}, hosts: map[engine.BusyHost]int{}, slow: map[lane]bool{},
		ownerTurns: map[string]int{}, laneTurns: map[lane]int{},
	}
}

// load is calls under way, and how many of them are of slow endpoints.
type load struct{ calls, slow int }

func (l load) plus(other load) load { return load{l.calls + other.calls, l.slow + other.slow} }

// choose picks the queue whose call is next, -1 where no call is due that has
// room, and then says when one will be: zero where none is known.
func (s *share) choose(queues []engine.CallQueue, now time.Time) (best int, next time.Time) {
	best = -1
	var all load
	owners := map[string]load{}
	for l, n := range s.open {
		one := load{calls: n}
		if s.slow[l] {
			one.slow = n
		}
		all, owners[l.owner] = all.plus(one), owners[l.owner].plus(one)
	}
	for i, q := range queues {
		l := lane{q.Owner, q.Endpoint}
		owner := owners[q.Owner]
		full := all.calls >= maxCalls || owner.calls >= maxPerOwner || s.open[l] >= maxPerEndpoint
		if full || s.slow[l] && (all.slow >= maxSlow || owner.slow >= maxSlowPerOwner) {
			continue // until a call ends
		}
		if q.Next.After(now) {
			if next.IsZero() || q.Next.Before(next) {
				next = q.Next
			}
			continue
		}
		if best < 0 || s.before(owners, q, queues[best]) {
			best = i
		}
	}
	return best, next
}

// before tells whether the call of a is made before that of b.
func (s *share) before(owners map[string]load, a, b engine.CallQueue) bool {
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

// begin counts a call that is made.
func (s *share) begin(c *engine.Call) {
	s.turns++
	l := laneOf(c)
	s.ownerTurns[l.owner], s.laneTurns[l] = s.turns, s.turns
	s.open[l]++
	s.hosts[engine.BusyHost{Owner: c.Owner, Host: c.Host}]++
}

// end takes a call back that is over.
func (s *share) end(c *engine.Call) {
	release(s.open, laneOf(c))
	release(s.hosts, engine.BusyHost{Owner: c.Owner, Host: c.Host})
}

func release[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

func laneOf(c *engine.Call) lane { return lane{c.Owner, c.Job.Endpoint} }

// recordOutcome remembers whether a receiver answered in time.
func (s *share) recordOutcome(c *engine.Call, inTime bool) {
	if inTime {
		delete(s.slow, laneOf(c))
		return
	}
	if len(s.slow) >= maxKnownSlow {
		clear(s.slow)
	}
	s.slow[laneOf(c)] = true
}

// busyHosts are the hosts that get no further call now.
func (s *share) busyHosts() (hosts []engine.BusyHost) {
	for host, n := range s.hosts {
		if n >= maxPerHost {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// prune drops the turns of those that have no calls any more.
func (s *share) prune(queues []engine.CallQueue) {
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
