package wire_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wire"
)

// A large body isn't sent if the target refuses it, so that the refusal can be read on a
// slow machine. An accepted body is sent.
func TestLargeBodyWaitsForARefusal(t *testing.T) {
	var read int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 3<<20 {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		read, _ = io.Copy(io.Discard, r.Body)
	}))
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	for size, status := range map[int]int{2 << 20: 200, 4 << 20: 413, 100: 200} {
		read = 0
		x := wire.Do(t.Context(), client, wire.Request{Method: "POST", URL: server.URL, Body: make([]byte, size)}, time.Now)
		if x.Err != nil || x.Status != status || status == 200 && read != int64(size) {
			t.Errorf("%d bytes: %d, %v, %d were read", size, x.Status, x.Err, read)
		}
	}
}
