// Package cases has the cases of the suite and their clauses, by section of the service description.
package cases

import (
	"cmp"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// All returns the cases, section by section.
func All() []suite.Case {
	return slices.Concat(
		jobCases, jobTimeCases, transitionCases, retryCases, submissionCases, policyCases, ttlCases, runSyncCases, streamCases, queueCases,
		payloadCases, retentionCases, rateCases, concurrencyCases, combinationCases(),
		authenticationCases, errorCases, webhookCases, templateCases, volumeCases, registryCases, endpointCases, dataCases, storedCases, v1Cases, versionCases, v2Cases, responseCases, existenceCases, pageCases, delegationCases, podCases, clusterCases, podChangeCases, podClassCases, billingCases, commandCases, secretCases, globalVolumeCases, buildCases, batchCases,
	)
}

// section returns the cases of a section. Cases without Needs, Allow, Level or Source get common's.
func section(common suite.Case, list []suite.Case) []suite.Case {
	for i := range list {
		c := &list[i]
		c.Needs, c.Allow = cmp.Or(c.Needs, common.Needs), cmp.Or(c.Allow, common.Allow)
		if c.Statement != "" { // the case declares the clause
			c.Level, c.Source = cmp.Or(c.Level, common.Level), cmp.Or(c.Source, common.Source)
		}
	}
	return list
}
