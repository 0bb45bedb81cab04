package page_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/test/system/chromium"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// The page lists an endpoint's batches, on a wide screen and on a phone. Batches that the API
// can cancel have a button for it.
func TestBrowserShowsBatches(t *testing.T) {
	t.Parallel()
	b := chromium.Open(t)
	for name, width := range map[string]int64{"desk": 1366, "phone": 400} {
		t.Run(name, func(t *testing.T) {
			d := deploy(t)
			work := d.createEndpoint("work", "builtin/conformance", 1)
			tab := b.Tab(t, width, 900, false)
			tab.Visit(d.url + "/#code=" + d.code)
			tab.Until(`document.querySelector('#status').textContent === 'Live'`)
			tab.Until(`document.querySelector('#batches-section').hidden`)
			tab.Eval(fmt.Sprintf(`location.hash = '#/endpoint/%s'`, work), nil)
			tab.Until(`document.querySelector('#title').textContent === 'work'`)
			tab.Until(`document.querySelector('#batches-section').hidden`)

			ended := d.createBatch(work, "ended", `{"op": "echo"}`, `{"op": "fail", "message": "no luck"}`)
			must.Do(d.Jobs.FinalizeBatch(t.Context(), work, ended))(t)
			row := func(id string) string {
				return `[...document.querySelectorAll('#batches tbody tr')].find((tr) => tr.cells[1].textContent.includes(` + quoted(id) + `))`
			}
			is := func(id, state string, running, completed, failed, total int, mayCancel bool) {
				t.Helper()
				tab.Until(fmt.Sprintf(`[...(%s?.cells ?? [])].map((c, i) => i === 0 || i > 1 && i < 6 ? c.textContent : i === 7 ? !c.firstChild.hidden : '').join() === '%s,,%d,%d,%d,%d,,%t'`, row(id), state, running, completed, failed, total, mayCancel))
			}
			is(ended, "finalized", 0, 1, 1, 2, false)
			running := d.createBatch(work, hostile, `{"op": "sleep", "ms": 600000}`, `{}`, `{}`)
			is(running, "draft", 0, 0, 0, 3, true)
			must.Do(d.Jobs.FinalizeBatch(t.Context(), work, running))(t)
			is(running, "finalized", 1, 0, 0, 3, true)
			draft := d.createBatch(work, "a draft", `{}`)
			tab.Until(`document.querySelector('#batches tbody tr').cells[1].textContent.includes(` + quoted(draft) + `)`) // newest first
			tab.Shows("#batches-count", "3")
			tab.Shows("#batches tbody", hostile, "ended", "just now")
			tab.Readable("batches")
			tab.Picture("batches-" + name)

			press := func(id string) {
				t.Helper()
				tab.Eval(`(() => { const b = `+row(id)+`.querySelector('button'); b.focus(); b.click(); })()`, nil)
			}
			press(draft)
			tab.Shows("#confirm", "Cancel batch a draft?", "1 request waits: it never runs.", "No request runs.")
			tab.Press(kb.Escape)
			tab.Until(`!document.querySelector('#confirm').open`)
			is(draft, "draft", 0, 0, 0, 1, true)
			press(draft)
			tab.Click("#confirm-yes")
			tab.Shows("#outcome", "Batch a draft is cancelled.")
			is(draft, "cancelled", 0, 0, 0, 1, false)
			tab.HasFocus("#main")
			press(running)
			tab.Shows("#confirm", "2 requests wait: they never run.", "1 request runs, and ends before the batch is cancelled.")
			tab.Readable("confirm")
			tab.Click("#confirm-yes")
			tab.Shows("#outcome", "is cancelled as soon as 1 request has ended.")
			is(running, "finalized", 1, 0, 0, 3, true)

			for i := range 60 {
				d.cancelledBatch(work, fmt.Sprint("b", i))
			}
			tab.Shows("#batches-count", "newest 12 of 63")
			tab.Click("#batches-more")
			tab.Shows("#batches-count", "newest 50 of 63")
			clean(t, tab, d.url)
		})
	}
}

// cancelledBatch creates a batch that isn't active.
func (d *deployment) cancelledBatch(endpoint, name string) {
	d.t.Helper()
	id := d.createBatch(endpoint, name)
	if resp, body := d.send(http.MethodPost, "/v2/"+endpoint+"/batch/"+id+"/cancel", "", bearer(key)); resp.StatusCode != http.StatusOK {
		d.t.Fatal(body)
	}
}
