package fire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/acctest"
)

// fault is a mistake that provider, deployment or user could make, made on
// purpose: a harness that does not see it proves nothing.
type fault int

const (
	none               fault = iota
	repeatsAny               // a create whose answer was lost is sent again
	repeatsPods              // one of a pod is
	repeatsClusters          // one of a cluster is
	repeatsDelegations       // one of a registry delegation is
	dropsKeys                // a change of the SSH keys drops those of somebody else
	forgets                  // an object falls out of the state
	hides                    // what is new is in no list for a minute
	readsNothing             // what errors and plans name is not imported
)

// repeats tells whether a request whose answer was lost is sent again.
func (f fault) repeats(operation string) bool {
	prefix, ok := map[fault]string{repeatsAny: "POST ", repeatsPods: "POST pods", repeatsClusters: "POST clusters", repeatsDelegations: "POST registries/delegations"}[f]
	return ok && strings.HasPrefix(operation, prefix)
}

// change returns the body that is sent in place of a request's own.
func (f fault) change(operation string, body []byte) []byte {
	if f == dropsKeys && operation == "PUT account/ssh-keys" {
		return bytes.Replace(body, []byte(`"`+foreignKey+`",`), nil, 1)
	}
	return body
}

// Each mistake is found within a few schedules.
func TestMistakesAreFound(t *testing.T) {
	const enough = 40
	both, second := acctest.Versions, []api.Version{api.V2}
	for name, c := range map[string]struct {
		fault      fault
		configured nodesOf
		versions   []api.Version
		finds      string // in what is wrong
		long       bool   // not in the short form
	}{
		"a create is repeated":                 {repeatsAny, serverless, both, "", false},
		"the state forgets":                    {forgets, serverless, both, "", false},
		"lists hide":                           {hides, serverless, both, "", false},
		"messages are not read":                {readsNothing, serverless, both, "", false},
		"a create of a pod is repeated":        {repeatsPods, pods, both, "pod work ", true},
		"a create of a cluster is repeated":    {repeatsClusters, pods, second, "and in no state", true},
		"a create of a delegation is repeated": {repeatsDelegations, pods, second, "and in no state", true},
		"keys of somebody else are dropped":    {dropsKeys, pods, second, "the SSH key of somebody else is gone", false},
	} {
		versions := c.versions
		if testing.Short() { // the mistakes are the harness's, on either version
			versions = versions[len(versions)-1:]
		}
		for _, v := range versions {
			t.Run(name+"/"+string(v), func(t *testing.T) {
				if c.long && testing.Short() {
					t.Skip("a long test")
				}
				t.Parallel()
				for seed := range uint64(enough) {
					if wrong := runSchedule(t, v, c.configured, seed+1, c.fault); len(wrong) > 0 && strings.Contains(strings.Join(wrong[1:], "\n"), c.finds) {
						return
					}
				}
				t.Errorf("%d schedules end as if nothing was wrong", enough)
			})
		}
	}
}
