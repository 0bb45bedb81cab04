package worker

import (
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

// Reports of stale workers don't affect the new version.
func TestBackoffIgnoresOtherVersions(t *testing.T) {
	now := time.Now()
	for name, report := range map[string]func(b *backoff, version int64){
		"fail":    func(b *backoff, version int64) { b.fail(version, "no disk", now) },
		"ready":   (*backoff).ready,
		"serving": (*backoff).serving,
		"jobDone": (*backoff).jobDone,
	} {
		t.Run(name, func(t *testing.T) {
			b := backoff{version: 1}
			b.fail(1, "no model", now)
			b.renew(2)
			report(&b, 1)
			if pause, why := b.pause(now), b.failure(); pause != 0 || why != "" {
				t.Errorf("the new version is delayed by %s: %q", pause, why)
			}
			must.Hold(t, b.fail(2, "no disk", now), "the failure of the new version isn't logged")
			report(&b, 1)
			b.pause(now.Add(firstRetry))
			must.Hold(t, !b.fail(2, "no disk", now), "the same failure is logged twice")
			report(&b, 1)
			if pause, why := b.pause(now), b.failure(); pause != 2*firstRetry || why != "no disk" {
				t.Errorf("after two failures the pause is %s: %q", pause, why)
			}
		})
	}
}

func TestSignature(t *testing.T) {
	const failure = "it ended right after its start, with exit status 1"
	for other, same := range map[string]bool{
		failure: true,
		failure + " (meanwhile the kernel killed one of its processes or one next to it, out of memory)": true,
		"it ended right after its start, with exit status 2":                                             false,
		failure + ". The end of its log:\nno model":                                                      false,
	} {
		must.Equal(t, signature(other) == signature(failure), same, other, "has the same signature")
	}
	must.Equal(t, signature("at 0x7f12: no model 15"), signature("at 0x9a00: no model 16"), "an address and a count change the signature")
}
