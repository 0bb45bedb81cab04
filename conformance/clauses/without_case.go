package clauses

import "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"

// reasonForClients is why no case judges the clauses about clients.
const reasonForClients = "it is about clients, and conformance client judges it"

// withoutCase are the clauses without a case: those that no case can judge, with the
// reason, and one that cases of other clauses judge by Given.
var withoutCase = []Clause{
	{
		ID: "JOB-47", Level: suite.Unspec, Source: "What the service does, 4",
		Statement:  "Load-balancing endpoints.",
		Untestable: "the description leaves their requests to the user's own server",
	},
	{
		ID: "RAT-09", Level: suite.Must, Source: "Limits, Rate limits",
		Statement: "As many requests as the limit allows are accepted, of every operation.",
		// Also of RAT-01 to RAT-08: each sends as many as its limit allows first.
	},
	{
		ID: "VER-51", Level: suite.Unspec, Source: "Versioning, 12",
		Statement:  "Compatibility between the versions.",
		Untestable: "the description promises none",
	},
	{
		ID: "CLI-01", Level: suite.Must, Source: "Authentication, 1",
		Statement:  "A client sends its key as Authorization: Bearer on every call.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-02", Level: suite.Should, Source: "Errors, 429",
		Statement:  "A client that is answered 429 backs off exponentially and tries again.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-03", Level: suite.Should, Source: "Events, 1",
		Statement:  "A receiver of webhooks answers 200.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-04", Level: suite.Must, Source: "States and transitions, Network volume size rule",
		Statement:  "A client that plans refuses to shrink a volume before it asks.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-05", Level: suite.Must, Source: "Template",
		Statement:  "A client tells that a name is taken.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-06", Level: suite.Must, Source: "Versioning, 1",
		Statement:  "A client of version 1 warns after its retirement.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-07", Level: suite.Should, Source: "Errors, 500",
		Statement:  "A client does not repeat a request that makes something, unless it has seen that it was not made.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-08", Level: suite.Should, Source: "Errors, 400",
		Statement:  "A client does not repeat a request that was refused: 4xx but 429.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-09", Level: suite.Should, Source: "States and transitions, ttl elapsed",
		Statement:  "A client that waits for a job takes the 404 of one that is gone for its end, and tells.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-10", Level: suite.Should, Source: "States and transitions, POST /cancel",
		Statement:  "A client that waits for a job takes CANCELLED for its end, and tells.",
		Untestable: reasonForClients,
	},
	{
		ID: "CLI-11", Level: suite.Should, Source: "Authentication, 1",
		Statement:  "A client shows its key in no output, and sends it in Authorization alone.",
		Untestable: reasonForClients,
	},
}
