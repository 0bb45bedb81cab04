package page_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The form sends jobs, shows streams, cancels and retries jobs, and keeps its input over a reload.
func TestBrowserSendsJobs(t *testing.T) {
	d := deploy(t)
	work := d.createEndpoint("work", "builtin/conformance", 2)
	tab := d.openPage()
	tab.Until(`document.querySelector('#send-section').hidden`) // no endpoint is chosen
	tab.Eval(`{ const f = document.querySelector('#filter'); f.value = 'nothing'; f.dispatchEvent(new Event('input')); }`, nil)
	tab.Until(`document.querySelectorAll('#endpoints tbody tr').length === 0 && !document.querySelector('#filter-label').hidden`)
	tab.Eval(fmt.Sprintf(`location.hash = '#/endpoint/%s'`, work), nil)
	tab.Until(`!document.querySelector('#send-section').hidden && document.querySelector('#send-input').value.includes('hello')`)
	tab.Shows("#send-variable", "export RUNPOD_ENDPOINT_BASE_URL="+d.url+"/live/v2")
	tab.Eval(`navigator.clipboard.writeText = () => Promise.reject(new Error('planted'))`, nil)
	tab.Click("#send-variable button")
	tab.Shows("#send-variable", "Not copied")
	send := func(input, button string) {
		t.Helper()
		tab.Eval(`document.querySelector('#send-input').value = `+quoted(input), nil)
		tab.Click(`#send-form button[value=` + button + `]`)
	}
	expectState := func(want string) {
		t.Helper()
		tab.Until(`document.querySelector('#send-state').dataset.state === ` + quoted(want))
	}

	send(`{"op": "stream", "n": 3}`, "run")
	tab.Until(`document.querySelectorAll('#send-stream div').length === 3`)
	expectState("COMPLETED")
	tab.Shows("#send-stream", `"n": 2`)

	const precise = "12345678901234567891" // JavaScript would round it
	send(`{"input": {"op": "echo", "say": `+quoted(hostile)+`, "seed": `+precise+`}}`, "runsync")
	tab.Until(`document.querySelector('#send-result').textContent.includes('"say"')`)
	expectState("COMPLETED")
	tab.Shows("#send-result", "<img src=x onerror=", precise)
	tab.Until(`document.querySelector('#jobs button')`)
	tab.Eval(`document.querySelector('#jobs button').click(); document.querySelector('#detail').close(); document.querySelector('#jobs button').click()`, nil)
	tab.Shows("#detail", precise)
	tab.Click("#detail-close")
	send(`{"op": "echo", "seed": 9`+precise+`}`, "runsync")
	tab.Shows("#send-result", "9"+precise)
	send(`{"op": "bytes", "n": 2000000}`, "runsync")
	tab.Shows("#send-result", "xxx\n… The rest is omitted here: the job API has it.")
	tab.Until(`[...document.querySelectorAll('#jobs button')].some((b) => document.querySelector('#send-state').textContent.startsWith(b.title) && (b.click(), true))`)
	tab.Shows("#detail", "2,000,002 bytes are omitted here: the job API has them.")
	tab.Click("#detail-close")
	send(`{"op": "echo", "deep": `+strings.Repeat("[", 8000)+strings.Repeat("]", 8000)+`}`, "runsync")
	tab.Shows("#send-error", "The answer can’t be shown here: ")
	tab.Until(`document.querySelector('#send-state').textContent === ''`)

	send(`{"op": "sleep", "ms": 600000}`, "run")
	expectState("IN_PROGRESS")
	tab.Until(`document.querySelector('#send-retry').disabled`)
	tab.Click("#send-cancel")
	tab.Shows("#confirm", "Cancel job ", "1 job is affected, which runs: its execution is stopped.")
	tab.Click("#confirm-yes")
	expectState("CANCELLED")

	send(`{"op": "fail", "message": "{\"error_traceback\": \"Traceback:\\nno luck\"}"}`, "run")
	expectState("FAILED")
	tab.Until(`document.querySelector('#send-result').textContent === 'Traceback:\nno luck'`)
	tab.Click("#send-retry")
	tab.Shows("#confirm", "Retry job ", "Its error and its output are removed")
	tab.Click("#confirm-yes")
	tab.Until(`document.querySelectorAll('#jobs [data-state=FAILED]').length === 1`)
	expectState("FAILED")

	send(`[1]`, "run")
	tab.Until(`document.querySelector('#send-error').textContent.includes('JSON object')`)
	send(`{"broken`, "run")
	tab.Until(`document.querySelector('#send-error').textContent !== ''`)
	send(`{"op": "sleep", "ms": 600000, "again": 1}`, "run")
	expectState("IN_PROGRESS")
	tab.CheckAccessibility("form")
	tab.Picture("form")
	tab.Visit(d.url + "/?again#/endpoint/" + work)
	tab.Until(`document.querySelector('#send-input').value.includes('"again": 1')`)

	// A job's dialog offers its actions.
	tab.Until(`document.querySelector('#jobs [data-state=IN_PROGRESS]')`)
	tab.Eval(`[...document.querySelectorAll('#jobs tbody tr')].find((tr) => tr.querySelector('[data-state=IN_PROGRESS]')).querySelector('button').click()`, nil)
	tab.Until(`document.querySelector('#detail').open && document.querySelector('#detail [data-op=retry]')?.disabled`)
	tab.Click("#detail [data-op=cancel]")
	tab.Click("#confirm-yes")
	tab.Until(`document.querySelector('#detail .badge').dataset.state === 'CANCELLED'`)
	tab.Until(`document.querySelector('#detail [data-op=cancel]').disabled`)
	tab.Until(`document.title === 'work · gpucloud jobrunner'`)

	// Another address closes the dialog. A deleted endpoint leaves no entry in the browser's history.
	tab.Eval(`window.entries = history.length; location.hash = '#/endpoint/deleted'`, nil)
	tab.Until(`location.hash === '#/' && history.length === window.entries + 1 && !document.querySelector('#detail').open && document.querySelector('#title').textContent === 'Overview'`)
	tab.Shows("#outcome", "This endpoint does not exist, or was deleted.")
	tab.Eval(`scrollTo(0, 150); history.back()`, nil)
	tab.Until(`location.hash === '#/endpoint/` + work + `' && document.querySelector('#title').textContent === 'work'`)
	tab.Eval(`history.forward()`, nil)
	tab.Until(`document.querySelector('#title').textContent === 'Overview' && scrollY > 50`)
	tab.Eval(`history.back()`, nil)
	tab.Until(`document.querySelector('#title').textContent === 'work'`)

	// Another endpoint's form shows no error or late answer of this one. If the deployment can't answer, the
	// page says why. A failed connection or sign-out doesn't stop the page.
	other := d.createEndpoint("other", "builtin/echo", 1)
	tab.Eval(`{ const real = fetch; window.fetch = (url, o) => {
		if (String(url).includes('/snapshot')) window.snapshots++;
		if (String(url).includes('/snapshot') && window.outage) return Promise.resolve(new Response(window.outage, { status: window.outage.startsWith('{') ? 503 : 404 }));
		if (String(url).includes('/snapshot') && window.frozen) return new Promise(() => {});
		if (String(url).includes('op=stream') && window.cut) return Promise.reject(new TypeError('planted'));
		if (String(url).includes('op=run') && !window.cut) return new Promise((done) => { window.answers.push(done); });
		return o?.method === 'DELETE' && window.refusal ? window.refusal() : real(url, o);
	}; window.answers = []; document.querySelector('#detail').close(); }`, nil)
	awaitSnapshots := func() { tab.Eval(`window.snapshots = 0`, nil); tab.Until(`window.snapshots > 2`) }
	tab.Eval(`window.outage = '{"error":"planted outage"}'`, nil)
	tab.Shows("#status", "planted outage")
	tab.Eval(`window.outage = '<h1>a proxy</h1>'`, nil)
	tab.Shows("#status", "Not reachable, trying again")
	tab.Eval(`window.outage = ''; window.cut = true`, nil)
	send(`{"op": "sleep", "ms": 3000}`, "run")
	tab.Shows("#send-error", "The deployment can’t be reached.")
	expectState("IN_PROGRESS")
	tab.Eval(`window.cut = false`, nil)
	expectState("COMPLETED")
	tab.Shows("#send-stream", "The connection was lost: chunks may be missing here.")
	tab.Eval(`window.frozen = true`, nil)
	tab.Shows("#status", "No answer yet")
	tab.Eval(`window.frozen = false; document.dispatchEvent(new Event('changed'))`, nil)
	send(`{}`, "run")
	send(`{}`, "run")
	send(`[1]`, "run")
	tab.Until(`document.querySelector('#send-error').textContent !== ''`)
	tab.Eval(`document.querySelector('#send-input').focus(); scrollTo(0, 200); location.hash = '#/endpoint/`+other+`'`, nil)
	tab.Until(`window.answers.length === 2 && document.querySelector('#title').textContent === 'other' && scrollY === 0 && document.activeElement.id === 'main'`)
	tab.Eval(`window.answers[0](new Response('{"error":"late"}', { status: 500 })); window.answers[1](new Response('{"id":"late","status":"IN_QUEUE"}'))`, nil)
	awaitSnapshots()
	tab.Until(`document.querySelector('#send-state').textContent + document.querySelector('#send-error').textContent === ''`)
	for _, refusal := range []string{`Promise.reject(new TypeError('planted'))`, `Promise.resolve(new Response('', { status: 503 }))`} {
		tab.Eval(`window.refusal = () => `+refusal, nil)
		tab.Click("#signout")
		awaitSnapshots()
	}
	balanced := d.createObject("/v2/serverless", `{"name":"b","type":"LOAD_BALANCER","scaling":{"type":"REQUEST_COUNT","requestCount":1},"image":"builtin/echo","workers":{"min":0,"max":1}}`)
	tab.Eval(`window.refusal = null; location.hash = '#/endpoint/`+balanced+`'`, nil)
	tab.Until(`document.querySelector('#title').textContent === 'b' && document.querySelector('#jobs-section').hidden`)
	tab.Until(`localStorage.length > 0`)
	tab.Click("#signout")
	tab.Until(`!document.querySelector('#signin').hidden && localStorage.length === 0 && document.querySelector('#send-input').value === ''`)
	expectClean(t, tab, d.url)
}

// The page forwards only its own operations. TestOnlyThePageCanAct says for whom.
func TestCalls(t *testing.T) {
	d := deploy(t)
	work := d.createEndpoint("work", "builtin/conformance", 1)
	job := d.submitJob(work, `{"op": "echo"}`)
	for query, status := range map[string]int{
		"op=run&endpoint=" + work:                   200,
		"op=status&endpoint=" + work + "&id=" + job: 200,
		"op=purge-queue&endpoint=" + work:           200,
		"op=health&endpoint=" + work:                404,
		"op=stop-pod&id=x&endpoint=" + work:         404,
		"op=stop-pod&id=..%2F" + work:               404,
		"op=stop-pod&id=nowhere":                    404,
		"op=terminate-pod&id=nowhere":               404,
		"op=status&endpoint=" + work:                404,
		"op=run&id=x&endpoint=" + work:              404,
		"op=run&endpoint=" + work + "%2Fhealth":     404,
		"op=run&endpoint=..":                        404,
		"op=status&id=..%2Fhealth&endpoint=" + work: 404,
		"op=run&endpoint=nowhere":                   404,
		"":                                          404,
	} {
		resp, body := d.send(http.MethodPost, "/ui/call?"+query, `{"input": {"op": "echo"}}`, bearer(key))
		must.Equal(t, resp.StatusCode, status, "status of", query, "and the answer", body)
	}
}

// A header of /stream tells clients of public SDKs the path of the SDK dialect.
func TestStreamExplainsItself(t *testing.T) {
	d := deploy(t)
	work := d.createEndpoint("work", "builtin/conformance", 1)
	job := d.submitJob(work, `{"op": "stream", "n": 1}`)
	for prefix, want := range map[string]string{"": "array of chunks; {status, stream} is at /live/v2/" + work + "/stream/" + job, "/live": ""} {
		resp, _ := d.send(http.MethodGet, prefix+"/v2/"+work+"/stream/"+job, "", map[string]string{"Authorization": "Bearer " + key})
		must.Equal(t, resp.Header.Get("X-Stream-Shape"), want, "X-Stream-Shape of", prefix+"/v2")
	}
}
