package cases

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// rateLimits are how often, but for RAT-01 and RAT-06.
var rateLimits = []suite.Case{
	{ID: "RAT-02", Also: []string{"RAT-09", "RAT-10"}, Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 1010, Jobs: 1001, Run: func(c *suite.C) {
		// They start no worker, and cost little.
		flood(c, 1000, "POST", "/run", suite.Submission(suite.Echo(), suite.Policy(suite.M{"lowPriority": true})))
	}},
	{ID: "RAT-03", Also: []string{"RAT-09", "RAT-10"}, Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 2010, Run: func(c *suite.C) {
		flood(c, 2000, "GET", "/status/"+nobodys(c), nil)
	}},
	{ID: "RAT-04", Also: []string{"RAT-09", "RAT-10"}, Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 2010, Run: func(c *suite.C) {
		flood(c, 2000, "GET", "/stream/"+nobodys(c), nil)
	}},
	{ID: "RAT-05", Also: []string{"RAT-09", "RAT-10"}, Needs: suite.Own, Allow: suite.Queue | suite.Load, Requests: 215, Run: func(c *suite.C) {
		flood(c, 100, "POST", "/cancel/"+nobodys(c), nil)
	}},
	{ID: "RAT-07", Also: []string{"RAT-09", "RAT-10"}, Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 2010, Run: func(c *suite.C) {
		begin := c.Now()
		c.Flood(2000-routed(c), "POST", "/openai/v1/x", nil) // refused for what it says, as in RAT-01
		if c.Exact() {
			c.Given("RAT-10", func() { c.Window(begin, 2000, "POST", "/openai/v1/x", nil) })
		}
	}},
	{ID: "RAT-08", Also: []string{"RAT-09", "RAT-10"}, Needs: suite.Own, Requests: 35, Run: func(c *suite.C) {
		flood(c, 10, "GET", "/requests", nil)
	}},
	{ID: "RAT-10", Needs: suite.Own, Allow: suite.Queue, Requests: 32, Takes: 125 * time.Second, Run: func(c *suite.C) {
		begin := c.Now()
		c.Given("RAT-06", func() { c.Flood(2, "POST", "/purge-queue", nil) })
		c.Window(begin, 2, "POST", "/purge-queue", nil)
	}},
	{ID: "RAT-18", Needs: suite.Own, Allow: suite.Queue, Requests: 15, Run: func(c *suite.C) {
		c.Given("RAT-08", func() { c.Flood(10, "GET", "/requests", nil) })
		purge(c, c.E).Is(200)
		c.Get("/status/x").Refused()
	}},
	{ID: "RAT-19", Needs: suite.Own | suite.Second, Allow: suite.Queue, Requests: 6, Run: func(c *suite.C) {
		c.Given("RAT-06", func() { c.Flood(2, "POST", "/purge-queue", nil) })
		purge(c, c.E2).Is(200)
	}},
	{ID: "RAT-20", Needs: suite.Own | suite.UserKey, Allow: suite.Queue, Requests: 6, Run: func(c *suite.C) {
		c.Given("RAT-06", func() { c.Flood(2, "POST", "/purge-queue", nil) })
		c.Post("/purge-queue", nil, suite.As(c.UserKey())).Is(200)
	}},
	{ID: "RAT-21", Needs: suite.LocalOnly | suite.V2, Allow: suite.Create | suite.Queue | suite.Load, Requests: 2500, Jobs: 120, Takes: time.Minute, Run: func(c *suite.C) {
		// How many requests a worker allows, nothing says: one at least, so that 120
		// allow more than the 100 of the base, and half of them the half of that.
		const all, base, most = 120, 100, 1000
		c.E = c.NewEndpoint(all)
		var jobs []*suite.Job
		allowed := func(workers int) (n int) {
			for len(jobs) < workers {
				jobs = append(jobs, c.Run(suite.Sleep(time.Hour)))
			}
			for _, j := range jobs {
				j.Running()
			}
			c.Sleep(11 * time.Second) // what was asked before counts no more
			nobody := "/cancel/" + suite.Resembling(jobs[0].ID)
			for n < most && c.Post(nobody, nil, suite.Quiet()).Code != http.StatusTooManyRequests {
				n++
			}
			return n
		}
		half := allowed(all / 2)
		c.Expect(half >= base, "100 requests, the base", "%d requests", half)
		if half == most {
			return // a worker allows so many that the base shows no more
		}
		whole := allowed(all)
		c.Expect(whole > base, "more requests than the 100 of the base, with 120 running workers", "%d requests", whole)
		c.Expect(whole == most || (whole+1)/2 <= max(base, half) && half <= max(base, (whole+1)/2),
			"the higher of 100 and of what the running workers allow: with 60 workers, the half of what 120 allow", "%d with 60 workers, %d with 120", half, whole)
	}},
	{ID: "RAT-22", Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 1010, Run: func(c *suite.C) {
		before := c.Get("/health").Is(200).Object("jobs")
		c.Burst(1000, "POST", "/run", nil)
		c.Given("RAT-02", func() { c.Post("/run", suite.Submission(suite.Echo())).Is(http.StatusTooManyRequests) })
		c.Sleep(c.Grace()) // counts may come a little late
		c.Get("/health").Is(200).Equal("jobs", before)
	}},
	{ID: "RAT-23", Needs: suite.Own, Allow: suite.Queue, Requests: 5, Takes: 12 * time.Second, Run: func(c *suite.C) {
		c.Given("RAT-06", func() { c.Flood(2, "POST", "/purge-queue", nil) })
		after := purge(c, c.E).Header.Get("Retry-After")
		if after == "" {
			c.Observe("no Retry-After")
			return
		}
		seconds, err := strconv.Atoi(after)
		c.Observe("Retry-After in seconds: %v", err == nil)
		if date, bad := http.ParseTime(after); bad == nil { // the other form (RFC 9110)
			seconds, err = max(1, int(date.Sub(c.Now())/time.Second)+1), nil
		}
		c.Should(func() {
			c.Expect(err == nil && seconds >= 1, "Retry-After: seconds, 1 or more", "Retry-After: %s", after)
			c.Sleep(time.Duration(seconds) * time.Second)
			purge(c, c.E).Is(200)
		})
	}},
	{ID: "RAT-24", Needs: suite.V2, Run: func(c *suite.C) {
		a := c.V2("GET", "/templates", nil).Is(200)
		c.Observe("RateLimit-Policy: %s", a.Header.Get("RateLimit-Policy"))
	}},
	{ID: "RAT-25", Needs: suite.V2 | suite.OtherKey, Requests: 4, Run: func(c *suite.C) {
		quotas(c, c.V2("GET", "/templates", nil).Is(200))
		for code, a := range map[int]*suite.Answer{
			403: c.V2("GET", "/templates", nil, suite.As(c.OtherKey())),
			404: c.V2("GET", "/templates/"+c.Nonce(), nil),
		} {
			if a.Code == code { // else another clause judges it
				shown := a.Header.Get("RateLimit") != "" && a.Header.Get("RateLimit-Policy") != ""
				c.Expect(shown, fmt.Sprintf("RateLimit and RateLimit-Policy with %d, as with 200", code), "the headers %v", a.Header)
			}
		}
	}},
	{ID: "RAT-26", Needs: suite.V2 | suite.LocalOnly, Requests: 70, Run: func(c *suite.C) {
		quotas(c, c.V2("GET", "/templates", nil).Is(200))
		for range 65 {
			a := c.V2("GET", "/templates", nil)
			if a.Code/100 != 2 || !usedUp.MatchString(a.Header.Get("RateLimit")) {
				continue
			}
			next := c.V2("GET", "/templates", nil)
			c.Expect(next.Code == http.StatusTooManyRequests, "429 after RateLimit: "+a.Header.Get("RateLimit"), "the status code %d", next.Code)
			return
		}
	}},
}

// usedUp is a quota in RateLimit of which nothing is left.
var usedUp = regexp.MustCompile(`;\s*r=0(\D|$)`)

// quotas skips a case where an answer shows none: which callers have some, the
// deployment decides.
func quotas(c *suite.C, a *suite.Answer) {
	if a.Header.Get("RateLimit") == "" || a.Header.Get("RateLimit-Policy") == "" {
		c.Skip("answers show no quotas")
	}
}

// nobodys is the id of no job, in the form of one.
func nobodys(c *suite.C) string {
	// It starts no worker, whose number may change the limits.
	return suite.Resembling(c.Run(suite.Echo(), suite.Policy(suite.M{"lowPriority": true})).ID)
}

// routed is how many requests it took to see that the deployment answers below
// /openai/v1: which routes there are, the description does not show.
func routed(c *suite.C) int {
	if a := c.Post("/openai/v1/x", nil); a.Code == http.StatusNotFound || a.Code == http.StatusMethodNotAllowed {
		c.Skip("POST /openai/v1/x is answered %d: which paths are below /openai, the description does not show", a.Code)
	}
	return 1
}

// openLimits are how many at a time, of one operation at one endpoint beside
// others.
var openLimits = []suite.Case{
	{ID: "RAT-18-open", Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 215, Jobs: 2, Run: func(c *suite.C) {
		nobody := nobodys(c)
		openRuns(c, func() {
			c.Get("/status/" + nobody).Is(404)
			c.Post("/cancel/"+nobody, nil).Is(404)
			purge(c, c.E).Is(200)
		})
	}},
	{ID: "RAT-19-open", Needs: suite.Wide | suite.Second | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 215, Jobs: 1, Run: func(c *suite.C) {
		openRuns(c, func() { c.Job("POST", c.E2, "/run", suite.Submission(suite.Echo())).Success() })
	}},
}

// openRuns does something while as many requests of /run are open as its limit
// allows.
func openRuns(c *suite.C, do func()) {
	var open []*suite.Pending
	defer func() {
		for _, p := range open {
			p.Drop()
		}
	}()
	for range 200 {
		open = append(open, c.Start("POST", "/run", nil, suite.Stalled(), suite.Quiet()))
	}
	last := c.Start("POST", "/run", nil, suite.Stalled(), suite.Quiet())
	open = append(open, last)
	c.Given("RAT-12", func() {
		for late := time.Now().Add(refusal); ; time.Sleep(time.Millisecond) {
			n, answered := countHeld(open)
			if answered {
				c.Skip("the deployment answers at once, and nobody can hold so many requests open")
			}
			if n <= 200 {
				return
			}
			c.Expect(time.Now().Before(late), "429 to one of 201", "no answer 429")
		}
	})
	do()
}

// flood judges a limit, and its window where it costs no time.
func flood(c *suite.C, limit int, method, path string, body any) {
	begin := c.Now()
	c.Flood(limit, method, path, body)
	if c.Exact() {
		c.Given("RAT-10", func() { c.Window(begin, limit, method, path, body) })
	}
}

func purge(c *suite.C, endpoint string) *suite.Answer {
	return c.Job("POST", endpoint, "/purge-queue", nil)
}

// concurrencyLimits are how many at a time.
var concurrencyLimits = []suite.Case{
	{ID: "RAT-11", Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 445, Jobs: 400, Run: func(c *suite.C) {
		// With a running worker the limit might be a higher one.
		hold(c, 400, "POST", "/runsync", suite.Submission(suite.Echo(), suite.Policy(suite.M{"lowPriority": true})))
	}},
	{ID: "RAT-12", Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 225, Run: func(c *suite.C) {
		hold(c, 200, "POST", "/run", nil, suite.Stalled())
	}},
	{ID: "RAT-13", Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 10000, Jobs: 60, Takes: 4 * time.Minute, Run: func(c *suite.C) {
		meet(c, 400, 440, "GET", func(id string) string { return "/status/" + id + "?ttl=86400000" })
	}},
	{ID: "RAT-14", Needs: suite.Own | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 480, Jobs: 1, Run: func(c *suite.C) {
		j := c.Run(suite.Sleep(time.Hour))
		j.Running()
		hold(c, 400, "GET", "/stream/"+j.ID, nil)
	}},
	{ID: "RAT-15", Needs: suite.Wide | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 1800, Jobs: 840, Takes: 4 * time.Minute, Run: func(c *suite.C) {
		meet(c, 20, 40, "POST", func(id string) string { return "/cancel/" + id })
	}},
	{ID: "RAT-16", Needs: suite.Own | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 446, Jobs: 400, Run: func(c *suite.C) {
		routed(c)
		hold(c, 400, "POST", "/openai/v1/x", suite.Sleep(time.Hour))
	}},
	{ID: "RAT-17", Needs: suite.Own | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 90, Jobs: 16, Takes: 66 * time.Second, Run: func(c *suite.C) {
		// A list that is longer than the buffers of a connection, and that nobody
		// reads, keeps its request open.
		var last *suite.Job
		for range 16 {
			last = c.Run(suite.Fail(suite.M{"bytes": 1_000_000}))
		}
		last.Failed() // and so have those before it: there is one worker
		n, answered := openAtOnce(c, 2, "GET", "/requests", nil, suite.Unread())
		if !answered {
			expectHeld(c, n, 2)
			return
		}
		// Where something in front takes the answers from the deployment, only those
		// that are made at the same moment are open at a time.
		const tries = 6
		lists := slices.Repeat([]string{"/requests"}, 10)
		for range tries {
			c.Sleep(11 * time.Second) // the next window
			if accepted, _ := c.Together("GET", lists); accepted < len(lists) {
				return
			}
		}
		c.Fail(fmt.Sprintf("10 requests at the same moment, %d times, and no 429", tries), "429 to those above 2 at a time")
	}},
}

// refusal is how long a refusal may take of a deployment that hundreds of
// requests keep busy, on the wall.
const refusal = 5 * time.Second

// hold opens more requests than the limit: as many as it allows must be held, and
// the others be answered 429.
func hold(c *suite.C, limit int, method, path string, body any, o ...suite.Option) {
	n, answered := openAtOnce(c, limit, method, path, body, o...)
	if answered {
		c.Skip("the deployment answers at once, and nobody can hold so many requests open")
	}
	expectHeld(c, n, limit)
}

func expectHeld(c *suite.C, n, limit int) {
	c.Expect(n <= limit, "429 to those above "+strconv.Itoa(limit), "%d requests are open at a time", n)
	c.Expect(n == limit, strconv.Itoa(limit)+" requests that are held", "429 to one more than %d", n)
}

// openAtOnce is how many of more requests than the limit are open at a time; answered
// says that one was answered, and nobody can hold them open.
func openAtOnce(c *suite.C, limit int, method, path string, body any, o ...suite.Option) (n int, answered bool) {
	var open []*suite.Pending
	defer func() {
		for _, p := range open {
			p.Drop()
		}
	}()
	more := max(limit/10, 4)
	for range limit + more {
		open = append(open, c.Start(method, path, body, append(o, suite.Quiet())...))
	}
	for late := time.Now().Add(refusal); ; {
		if n, answered = countHeld(open); answered {
			return n, true
		}
		if n <= limit || time.Now().After(late) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if n == limit {
		// One more is refused while all that came before are held, and those that
		// were on their way have arrived by then.
		open = append(open, c.Start(method, path, body, o...))
		for late := time.Now().Add(refusal); n >= limit && time.Now().Before(late); {
			if n, answered = countHeld(open); n == limit || answered {
				break
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond)
		n, answered = countHeld(open)
	}
	return n, answered
}

// meet sends requests that nobody can hold open, so many at the same moment.
// Those that change a job meet behind large ones that are being written: then as
// many are accepted as the limit allows, and the others are answered 429. Where
// they do not all meet, more are accepted, and another try may tell.
func meet(c *suite.C, limit, n int, method string, path func(id string) string) {
	const tries = 20
	large := body(9_000_000)
	meetings, least := 0, n
	for try := range tries {
		paths := make([]string, n)
		for i := range paths {
			if i == 0 || method == http.MethodPost {
				paths[i] = path(c.Run(suite.Echo(), suite.Policy(suite.M{"lowPriority": true})).ID)
			} else {
				paths[i] = paths[0]
			}
		}
		writes := []*suite.Pending{
			c.Start("POST", "/run", nil, suite.Raw(large), suite.Quiet()), c.Start("POST", "/run", nil, suite.Raw(large), suite.Quiet()),
		}
		c.Sent()
		time.Sleep(time.Duration(try%10) * 4 * time.Millisecond) // they are read first
		accepted, met := c.Together(method, paths)
		for _, w := range writes {
			w.Answer()
		}
		c.Expect(accepted >= limit, strconv.Itoa(limit)+" at a time that are accepted", "429 to all but %d of %d", accepted, n)
		if accepted == limit {
			return
		}
		if met {
			meetings, least = meetings+1, min(least, accepted)
		}
		c.Sleep(11 * time.Second) // the next window
	}
	if meetings < 4 {
		c.Skip("the deployment answers faster than so many requests can be sent")
	}
	c.Fail(fmt.Sprintf("%d requests at a time are accepted, %d times", least, meetings), "429 to those above "+strconv.Itoa(limit))
}

// countHeld counts the requests that are open; those that are not refused are
// answered. The others must have been answered 429.
func countHeld(all []*suite.Pending) (open int, answered bool) {
	for _, p := range all {
		switch {
		case !p.Over():
			open++
		case p.Answer().Code/100 == 2:
			return open, true
		default:
			p.Answer().Is(http.StatusTooManyRequests)
		}
	}
	return open, false
}
