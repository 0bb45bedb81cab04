package fire

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/wirefault"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
)

// defect is a deliberate defect of the provider, the deployment or the user, which the tests must
// notice.
type defect struct {
	fault         func() *wirefault.Fault // creates a fault for one run, because a fault counts its uses; may be nil
	repeats       string                  // prefix of operations that are repeated if the response is lost
	forgets       bool                    // an object disappears from the state
	ignoresAdvice bool                    // the user ignores import commands
}

// repeats repeats creates whose response is lost.
func repeats(operations string) defect {
	return defect{fault: func() *wirefault.Fault { return &wirefault.Fault{Again: &wirefault.Edit{}} }, repeats: operations}
}

// The tests notice each defect within a few schedules.
func TestDefectsAreFound(t *testing.T) {
	const enough = 40
	both, second := acctest.Versions, []api.Version{api.V2}
	for name, c := range map[string]struct {
		defect     defect
		configured nodeSource
		versions   []api.Version
		finds      string // part of a failure
		long       bool   // not in a short run
	}{
		"a create is repeated": {repeats("POST "), serverless, both, "", false},
		"the state forgets":    {defect{forgets: true}, serverless, both, "", false},
		"lists hide": {defect{fault: func() *wirefault.Fault {
			return &wirefault.Fault{Method: "GET", Path: "^/v[12]/[^/]+$", Stale: 60}
		}}, serverless, both, "", false},
		"messages are not read":                {defect{ignoresAdvice: true}, serverless, both, "", false},
		"a create of a pod is repeated":        {repeats("POST pods"), pods, both, "pod work ", true},
		"a create of a cluster is repeated":    {repeats("POST clusters"), pods, second, "and is in no state", true},
		"a create of a delegation is repeated": {repeats("POST registries/delegations"), pods, second, "and is in no state", true},
		"keys of somebody else are dropped": {defect{fault: func() *wirefault.Fault {
			return &wirefault.Fault{Method: "PUT", Path: "/account/ssh-keys$", Request: wirefault.Edit{Raw: [][2]string{{`"` + regexp.QuoteMeta(foreignKey) + `",`, ""}}}}
		}}, pods, second, "the SSH key of somebody else is gone", false},
	} {
		versions := c.versions
		if testing.Short() { // one version is enough to test the harness
			versions = versions[len(versions)-1:]
		}
		for _, v := range versions {
			t.Run(name+"/"+string(v), func(t *testing.T) {
				if c.long && testing.Short() {
					t.Skip("a long test")
				}
				t.Parallel()
				for seed := range uint64(enough) {
					if wrong := runSchedule(t, v, c.configured, seed+1, c.defect); len(wrong) > 0 && strings.Contains(strings.Join(wrong[1:], "\n"), c.finds) {
						return
					}
				}
				t.Errorf("%d schedules don't notice the defect", enough)
			})
		}
	}
}
