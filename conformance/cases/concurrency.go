package cases

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// concurrencyCases judge the section "Limits", Rate limits: concurrent requests.
var concurrencyCases = []suite.Case{
	concurrencyCase(suite.Case{ID: "RAT-11", Needs: suite.FiveWorkerEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 445, Jobs: 400}, "/runsync", 400, func(c *suite.C) {
		judgeOpenLimit(c, 400, "POST", "/runsync", lowPrioritySubmission)
	}),
	concurrencyCase(suite.Case{ID: "RAT-12", Needs: suite.FiveWorkerEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 226}, "/run", 200, func(c *suite.C) {
		n, _, _ := countOpen(c, 200, "POST", "/run", nil, suite.Stalled())
		if n > 200 {
			requireUnbuffered(c)
		}
		expectHeld(c, n, 200)
	}),
	concurrencyCase(suite.Case{ID: "RAT-13", Needs: suite.FiveWorkerEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 12130, Jobs: 80, WaitTime: 5 * time.Minute}, "/status", 400, func(c *suite.C) {
		judgeSimultaneous(c, 400, 440, "GET", func(id string) string { return "/status/" + suite.PathSegment(id) + "?ttl=86400000" })
	}),
	concurrencyCase(suite.Case{ID: "RAT-14", Needs: suite.OwnEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 480, Jobs: 1}, "/stream", 400, func(c *suite.C) {
		judgeOpenLimit(c, 400, "GET", c.Blocker(time.Hour).Path("stream"), nil)
	}),
	concurrencyCase(suite.Case{ID: "RAT-15", Needs: suite.FiveWorkerEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 2430, Jobs: 1100, WaitTime: 5 * time.Minute}, "/cancel", 20, func(c *suite.C) {
		judgeSimultaneous(c, 20, 40, "POST", func(id string) string { return "/cancel/" + suite.PathSegment(id) })
	}),
	concurrencyCase(suite.Case{ID: "RAT-16", Needs: suite.OwnEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 446, Jobs: 400}, "/openai/*", 400, func(c *suite.C) {
		requireOpenAIRoute(c)
		judgeOpenLimit(c, 400, "POST", "/openai/v1/x", suite.Sleep(time.Hour))
	}),
	concurrencyCase(suite.Case{ID: "RAT-17", Needs: suite.OwnEndpoint | suite.LocalOnly, Allow: suite.Queue | suite.Load, Requests: 211, Jobs: 100, WaitTime: 77 * time.Second}, "/requests", 2, judgeOpenLists),
}

// judgeOpenLists judges the limit of concurrent requests of /requests. The suite doesn't read the
// responses. They exceed the connection's buffers, so the requests stay open.
func judgeOpenLists(c *suite.C) {
	var last *suite.Job
	for range 100 { // the list may leave out larger outputs and older jobs
		last = c.Run(suite.Bytes(60_000))
	}
	last.AwaitCompleted() // the earlier jobs have completed, too, since there is one worker
	n, succeeded, limited := countOpen(c, 2, "GET", "/requests", nil, suite.Unread())
	if n > 2 && !succeeded { // the buffers may have taken one list whole, so that its request no longer counts
		c.Sleep(11 * time.Second) // the next window
		n, succeeded, limited = countOpen(c, 2, "GET", "/requests", nil, suite.Unread())
	}
	if limited && !succeeded {
		expectHeld(c, n, 2)
		return
	}
	// If a proxy reads the answers, only requests that are served at the same moment are concurrent.
	const tries = 6
	lists := slices.Repeat([]string{"/requests"}, 10)
	for range tries {
		c.Sleep(11 * time.Second) // the next window
		if accepted, _ := c.SendSimultaneously("GET", lists); accepted < len(lists) {
			return
		}
	}
	c.Fail(fmt.Sprintf("10 requests at the same moment, %d times, and no 429", tries), "429 above 2 concurrent requests")
}

// refusalPatience is how long, in real time, a deployment with hundreds of requests may take to refuse one.
const refusalPatience = 15 * time.Second

// judgeOpenLimit opens more requests than the limit. The deployment must hold as many as the limit and answer the others 429.
func judgeOpenLimit(c *suite.C, limit int, method, path string, body any, o ...suite.Option) {
	n, succeeded, _ := countOpen(c, limit, method, path, body, o...)
	c.SkipIf(succeeded, "the deployment answers too fast to hold so many requests open")
	expectHeld(c, n, limit)
}

// requireUnbuffered skips the case if something reads a whole body before the deployment gets the request:
// then requests whose bodies are stalled aren't concurrent.
func requireUnbuffered(c *suite.C) {
	p := c.Start("POST", "/run", nil, suite.Stalled(), suite.WithKey(c.Nonce()))
	defer p.Abort()
	for deadline := time.Now().Add(refusalPatience); !p.Answered(); time.Sleep(time.Millisecond) {
		c.SkipIf(time.Now().After(deadline), "a request is answered only after its body has arrived, so that requests to /run can't be held open")
	}
}

func expectHeld(c *suite.C, held, limit int) {
	c.Expect(held <= limit, "429 above "+strconv.Itoa(limit)+" concurrent requests", "%d concurrent requests", held)
	c.Expect(held == limit, strconv.Itoa(limit)+" requests that are held", "429 after %d requests", held)
}

// countOpen sends more requests than the limit and returns the number that stay in flight.
// succeeded reports that one succeeded, so requests can't be held open. limited reports whether the
// deployment refuses further requests while these are in flight.
func countOpen(c *suite.C, limit int, method, path string, body any, o ...suite.Option) (n int, succeeded, limited bool) {
	var requests []*suite.Pending
	defer func() { abortAll(requests) }()
	begin := time.Now()
	for range limit + max(limit/10, 4) {
		requests = append(requests, c.Start(method, path, body, append(o, suite.Quiet())...))
	}
	n, succeeded = awaitRefusals(requests, limit)
	if n < limit || succeeded {
		return n, succeeded, true
	}
	further := c.Start(method, path, body, o...)
	requests = append(requests, further)
	if n > limit {
		return n, false, further.AnsweredWithin(refusalPatience) && further.Answer().Code == http.StatusTooManyRequests
	}
	// Once the deployment refuses one more request, it has received all earlier ones. Then wait as long as
	// everything since begin took, so that all its refusals arrive.
	awaitRefusals(requests, limit)
	time.Sleep(max(time.Since(begin), 20*time.Millisecond))
	n, succeeded = countHeld(requests)
	return n, succeeded, n <= limit
}

// judgeSimultaneous is for requests that can't be held open. It sends n requests at the
// same moment. First it sends two large submissions, so that requests that change a job wait
// until these are written. The deployment must accept as many requests as the limit allows,
// and answer the others 429. It may accept more if it answers some requests before it admits
// others, so judgeSimultaneous tries again. If the smallest number of accepted requests occurs
// several times, the deployment allows as many, and the case fails.
func judgeSimultaneous(c *suite.C, limit, n int, method string, path func(id string) string) {
	const (
		tries      = 26
		sufficient = 8 // occurrences of the smallest number
		pauses     = 5 // different pauses before the requests
	)
	large := submissionOfSize(9_000_000)
	occurrences, smallest := 0, n+1
	for try := range tries {
		paths := make([]string, n)
		for i := range paths {
			if i == 0 || method == http.MethodPost {
				paths[i] = path(c.Run(suite.Echo(), lowPriority).ID)
			} else {
				paths[i] = paths[0]
			}
		}
		writes := []*suite.Pending{
			c.Start("POST", "/run", nil, suite.Raw(large), suite.Quiet()), c.Start("POST", "/run", nil, suite.Raw(large), suite.Quiet()),
		}
		c.WaitUntilSent()
		time.Sleep(time.Duration(try%pauses) * 8 * time.Millisecond) // the deployment reads the large submissions first
		accepted, overlapped := c.SendSimultaneously(method, paths)
		for _, w := range writes {
			w.Answer()
		}
		c.Expect(accepted >= limit, strconv.Itoa(limit)+" concurrent requests that are accepted", "429 to all but %d of %d", accepted, n)
		if accepted == limit {
			return
		}
		switch {
		case !overlapped || accepted > smallest:
		case accepted < smallest:
			occurrences, smallest = 1, accepted
		default:
			occurrences++
		}
		if occurrences == sufficient {
			c.Fail(fmt.Sprintf("%d concurrent requests are accepted, %d times", smallest, occurrences), "429 above "+strconv.Itoa(limit)+" concurrent requests")
		}
		if try == pauses-1 && occurrences == 0 {
			break // after none of the pauses did the requests overlap
		}
		c.Sleep(11 * time.Second) // the next window
	}
	c.Skip("the deployment answers too fast for concurrent requests")
}

// awaitRefusals waits until at most limit requests are open, or until one succeeded.
func awaitRefusals(all []*suite.Pending, limit int) (open int, succeeded bool) {
	for deadline := time.Now().Add(refusalPatience); ; time.Sleep(time.Millisecond) {
		if open, succeeded = countHeld(all); succeeded || open <= limit || time.Now().After(deadline) {
			return open, succeeded
		}
	}
}

// countHeld counts the open requests and reports whether one succeeded. All others must have got 429.
func countHeld(all []*suite.Pending) (open int, succeeded bool) {
	for _, p := range all {
		switch {
		case !p.Answered():
			open++
		case p.Answer().Code/100 == 2:
			return open, true
		default:
			p.Answer().Is(http.StatusTooManyRequests)
		}
	}
	return open, false
}

// openToLimit sends more requests than the limit, and returns the requests in flight. If their
// number isn't the limit, it skips the case.
func openToLimit(c *suite.C, clause string, limit int, method, path string, body any, o ...suite.Option) (open []*suite.Pending) {
	var requests []*suite.Pending
	for range limit + 20 {
		requests = append(requests, c.Start(method, path, body, append(o, suite.Quiet())...))
	}
	succeeded := false
	c.Given(clause, func() { _, succeeded = awaitRefusals(requests, limit) })
	open = slices.DeleteFunc(slices.Clone(requests), (*suite.Pending).Answered)
	if succeeded || len(open) != limit {
		abortAll(requests)
		c.Skip("%d requests are open, not the %d that the limit allows", len(open), limit)
	}
	return open
}

func abortAll(requests []*suite.Pending) {
	for _, p := range requests {
		p.Abort()
	}
}
