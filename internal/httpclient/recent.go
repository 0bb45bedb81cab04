package httpclient

import (
	"strings"
	"sync"
	"time"
)

// consistencyWindow is the age until which a 404 about an object may be
// premature.
const consistencyWindow = time.Minute

// RecentCreates are the ids of objects that were created moments ago. A
// deployment may answer 404 about one for a while (field notes, create may be
// ambiguous), and such a 404 is asked again.
type RecentCreates struct {
	mu sync.Mutex
	at map[string]time.Time
}

// Add records when an object was created; the zero time is now.
func (r *RecentCreates) Add(id string, at time.Time) {
	if at.IsZero() {
		at = time.Now()
	}
	if age := time.Since(at); id == "" || age >= consistencyWindow || age < 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil {
		r.at = map[string]time.Time{}
	}
	r.at[id] = at
}

// Found removes the object of a URL: from now on a 404 about it is true.
func (r *RecentCreates) Found(url string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.at, url[strings.LastIndex(url, "/")+1:])
}

// Has tells whether an object was created moments ago, and not found since.
func (r *RecentCreates) Has(id string) bool { return r.concern("/"+id, "") }

// concern tells whether a request names a recent object, in its path or in its
// body.
func (r *RecentCreates) concern(url, body string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, at := range r.at {
		if time.Since(at) >= consistencyWindow {
			delete(r.at, id)
			continue
		}
		if strings.HasSuffix(url, "/"+id) || strings.Contains(body, `"`+id+`"`) {
			return true
		}
	}
	return false
}
