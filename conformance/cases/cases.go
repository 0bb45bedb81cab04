// Package cases are the cases of the suite, a file for each section of the
// service description. A case is one short function under the id of its clause.
package cases

import (
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// All are the cases in the order of the registry.
func All() []suite.Case {
	return slices.Concat(
		jobs, jobFields, jobTransitions, submissions, submissionBodies, executionPolicies, ttlPolicies,
		templates, volumes, registries, restOfV1, paths, lists, bodiesOfV2, keys, errorBodies, hooks, waits, streams, queues, payloads, retentions, rateLimits, concurrencyLimits, operations, limits, rates, auth, errorCases, webhooks,
		access, methods, absent, refusals, rateRefusals, oneOfSeveral,
		v1Templates, v1Volumes, v1Registries, v1Rest, v2,
		data, stored,
		further(combinations(), jobTimes, timedRest, webhookTimes, openLimits),
	)
}

// further are cases beside those that judge the same clauses everywhere.
func further(lists ...[]suite.Case) []suite.Case {
	all := slices.Concat(lists...)
	for i := range all {
		all[i].More = true
	}
	return all
}
