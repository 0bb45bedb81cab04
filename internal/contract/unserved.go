package contract

// Unserved is an operation that the operator has and the jobrunner lacks: it answers 501.
type Unserved struct {
	Method, Path string // below the base URL
	Guess        bool   // the operator's pages name the operation, and print no path
	Source       string
}

// UnservedOperations are the operations of the operator's pages that the jobrunner lacks.
var UnservedOperations = []Unserved{
	{"GET", "/v2/account", true, "page of November 2026: account/get-your-account"},
	{"GET", "/v2/account/limits", true, "page of 18 November 2026: account/get-account-limits"},
	{"GET", "/v2/billing/balance", true, "page of 18 November 2026: billing/get-the-account-balance"},
	{"GET", "/v2/organization", true, "page of November 2026: organization/get-your-current-organization"},
	{"GET", "/v2/organization/invites", true, "page of November 2026: organization/list-pending-organization-invites"},
	{"GET", "/v2/organization/invites/{id}", true, "page of November 2026: organization/get-a-pending-organization-invite"},
	{"GET", "/v2/organization/users", false, "page of November 2026: organization/list-organization-members"},
	{"GET", "/v2/organization/users/{id}", false, "page of 27 October 2026: organization/get-an-organization-member"},
	{"DELETE", "/v2/organization/users/{id}", false, "page of 3 November 2026: organization/remove-an-organization-member"},
	{"GET", "/v2/serverless/{id}/builds/{buildId}/logs", false, "text of the v2 document of September 2026: listServerlessBuilds"},
}
