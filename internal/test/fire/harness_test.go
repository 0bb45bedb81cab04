package fire

import (
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
)

// fault is a mistake that provider, deployment or user could make, made on
// purpose: a harness that does not see it proves nothing.
type fault int

const (
	none         fault = iota
	repeats            // a create whose answer was lost is sent again
	forgets            // an object falls out of the state
	hides              // what is new is in no list for a minute
	readsNothing       // what errors and plans name is not imported
)

// Each mistake is found within a few schedules.
func TestMistakesAreFound(t *testing.T) {
	const enough = 40
	for name, f := range map[string]fault{"a create is repeated": repeats, "the state forgets": forgets, "lists hide": hides, "messages are not read": readsNothing} {
		for _, v := range acctest.Versions {
			t.Run(name+"/"+string(v), func(t *testing.T) {
				t.Parallel()
				for seed := range uint64(enough) {
					if len(runSchedule(t, v, seed+1, f)) > 0 {
						return
					}
				}
				t.Errorf("%d schedules end as if nothing was wrong", enough)
			})
		}
	}
}
