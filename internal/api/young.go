package api

import (
	"strings"
	"sync"
	"time"
)

// young remembers what was made moments ago: a deployment may answer 404 about
// it for a while (field notes, create may be ambiguous), which is no absence
// yet.
type young struct {
	mu   sync.Mutex
	born map[string]time.Time
}

// note says that an object was just made.
func (y *young) note(id string) { y.noteAt(id, time.Now()) }

func (y *young) noteAt(id string, at time.Time) {
	if age := time.Since(at); id == "" || age >= limits.youth || age < 0 {
		return
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.born == nil {
		y.born = map[string]time.Time{}
	}
	y.born[id] = at
}

// seen ends the patience with the object of a URL: it was found there once.
func (y *young) seen(url string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	delete(y.born, url[strings.LastIndex(url, "/")+1:])
}

// concerns tells whether a request names a young object, in its path or in its
// body.
func (y *young) concerns(url, body string) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	for id, at := range y.born {
		if time.Since(at) >= limits.youth {
			delete(y.born, id)
			continue
		}
		if strings.HasSuffix(url, "/"+id) || strings.Contains(body, `"`+id+`"`) {
			return true
		}
	}
	return false
}
