package httpclient

import (
	"strings"
	"sync"
	"time"
)

// consistencyWindow is the age below which an object's 404 may be premature.
const consistencyWindow = time.Minute

// RecentCreates holds the ids of objects that were created recently. For a while a deployment
// may answer 404 about such an object (field notes, create may be ambiguous). The request is
// then repeated.
type RecentCreates struct {
	mu sync.Mutex
	at map[string]time.Time
}

// Add records when an object was created. A zero time means now.
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

// Found removes the object of a URL: a later 404 means that it is gone.
func (r *RecentCreates) Found(url string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.at, url[strings.LastIndex(url, "/")+1:])
}

// Has reports whether an object was created recently and not found since.
func (r *RecentCreates) Has(id string) bool { return r.concern("/"+id, "") }

// concern reports whether a request names a recent object in its path or body.
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
