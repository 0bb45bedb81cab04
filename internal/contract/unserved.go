package contract

// Unserved is an operation of the operator that the jobrunner answers with 501.
type Unserved struct {
	API          API
	Method, Path string // below the API's base path
	Guess        bool   // the path is a guess: the operator's pages print none
	Source       string
}

// UnservedOperations lists the operator's operations that the jobrunner doesn't serve.
var UnservedOperations = []Unserved{
	{V2, "GET", "/account", true, "page of November 2026: account/get-your-account"},
	{V2, "GET", "/account/limits", true, "page of 18 November 2026: account/get-account-limits"},
	{V2, "GET", "/billing/balance", true, "page of 18 November 2026: billing/get-the-account-balance"},
	{V2, "GET", "/organization", true, "page of November 2026: organization/get-your-current-organization"},
	{V2, "GET", "/organization/invites", true, "page of November 2026: organization/list-pending-organization-invites"},
	{V2, "GET", "/organization/invites/{id}", true, "page of November 2026: organization/get-a-pending-organization-invite"},
	{V2, "GET", "/organization/users", false, "page of November 2026: organization/list-organization-members"},
	{V2, "GET", "/organization/users/{id}", false, "page of 27 October 2026: organization/get-an-organization-member"},
	{V2, "DELETE", "/organization/users/{id}", false, "page of 3 November 2026: organization/remove-an-organization-member"},
	{V2, "GET", "/serverless/{id}/builds/{buildId}/logs", false, "text of the v2 document of September 2026: listServerlessBuilds"},
}
