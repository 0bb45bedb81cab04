// Package cases has the cases of the suite, and the clauses that they declare: a file for
// each section of the service description.
package cases

import (
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"
)

// All returns the cases, section by section.
func All() []suite.Case {
	return slices.Concat(
		jobCases, jobTimeCases, transitionCases, retryCases, submissionCases, policyCases, ttlCases, runSyncCases, streamCases, queueCases,
		payloadCases, retentionCases, rateCases, concurrencyCases, combinationCases(),
		authenticationCases, errorCases, webhookCases, templateCases, volumeCases, registryCases, endpointCases, dataCases, storedCases, v1Cases, versionCases, v2Cases, existenceCases, pageCases, delegationCases, podCases, clusterCases, podChangeCases, podClassCases, billingCases, commandCases, secretCases, globalVolumeCases, buildCases, batchCases,
	)
}
