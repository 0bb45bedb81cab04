package page_test

import (
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/apikey"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/clock"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/page"
)

// If a worker gets its GPU while a snapshot is made, the snapshot is consistent.
func TestGPUIsNotFreeAndUsedAtOnce(t *testing.T) {
	c := new(clock.Clock)
	b := newBusyMachine(c)
	b.gpus[0].Holder = "" // the state a moment ago
	p := page.New(page.Config{Source: b, Keys: apikey.New(key), Clock: c, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	defer p.Close()
	look := httptest.NewRequest("GET", "/ui/snapshot", nil)
	look.Header.Set("Authorization", "Bearer "+key)
	answer := httptest.NewRecorder()
	p.ServeHTTP(answer, look)
	var s struct {
		GPUs struct {
			Devices []struct{ UUID, Holder string }
		}
	}
	must.Succeed(t, json.Unmarshal(answer.Body.Bytes(), &s))
	if got := s.GPUs.Devices[0]; got.UUID != "GPU-0" || got.Holder != "w1sdxl-run" {
		t.Errorf("the device of a running worker is %+v", got)
	}
}
