package wirefault

import (
	"net/http"
	"regexp"
	"time"
)

// hasLine tells whether the request line or a header matches.
func hasLine(r *http.Request, line *regexp.Regexp) bool {
	if line.String() == "" || line.MatchString(r.Method+" "+r.URL.RequestURI()) || r.ContentLength < 0 && line.MatchString("Transfer-Encoding: chunked") {
		return true
	}
	for name, values := range r.Header {
		for _, value := range values {
			if line.MatchString(name + ": " + value) {
				return true
			}
		}
	}
	return false
}

// interrupt holds a request or drops its connection at a moment, see Drop and Hold.
func (f *Fault) interrupt(moment string, r *http.Request) {
	if f.Hold == moment {
		_ = readBody(r) // net/http notices a disconnected client only after the body is read
		if f.Held != nil {
			f.Held <- struct{}{}
		}
		select {
		case <-f.Gate:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	if f.Drop == moment {
		_ = readBody(r)
		panic(http.ErrAbortHandler)
	}
}

// pacedWriter waits for Delay and returns a writer that applies Drip, Cut and Stall.
func (f *Fault) pacedWriter(out http.ResponseWriter, r *http.Request) http.ResponseWriter {
	pause(r, f.Delay)
	if f.Drip == 0 && f.Cut == 0 && f.Stall == 0 {
		return out
	}
	return &slowWriter{out, r, f}
}

// pause waits, and aborts the request if the client disconnects.
func pause(r *http.Request, seconds float64) {
	if seconds == 0 {
		return
	}
	select {
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	case <-r.Context().Done():
		panic(http.ErrAbortHandler)
	}
}

type slowWriter struct {
	http.ResponseWriter
	r *http.Request
	f *Fault
}

// Write sends the body, or its part before Cut or Stall. It is called once.
func (w *slowWriter) Write(body []byte) (int, error) {
	flusher := http.NewResponseController(w.ResponseWriter)
	sent, end := 0, len(body)
	for _, limit := range []int{w.f.Cut, w.f.Stall} {
		if limit > 0 {
			end = min(end, limit)
		}
	}
	for sent < end {
		piece := body[sent:end]
		if w.f.Drip > 0 {
			pause(w.r, w.f.Drip)
			piece = piece[:min(len(piece), 32)]
		}
		n, err := w.ResponseWriter.Write(piece)
		sent += n
		if err == nil {
			err = flusher.Flush()
		}
		if err != nil {
			return sent, err
		}
	}
	switch {
	case sent == len(body):
		return sent, nil
	case w.f.Stall > 0:
		<-w.r.Context().Done()
	}
	panic(http.ErrAbortHandler)
}
