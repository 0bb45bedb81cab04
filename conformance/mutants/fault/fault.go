// Package fault makes a jobrunner wrong in one chosen place, to prove that the
// conformance suite detects it. The product does not import it: the patches in
// ../patches do, and ../overlay builds a jobrunner with them.
//
// The same makes it different in places where the contract leaves a choice, to
// prove that the suite fails nothing that is merely different.
//
// A fault, or a list of them, is chosen at the start of the process by
// GPUCLOUD_FAULT, as JSON:
//
//	{"point": "retry-any-state"}                          a place in the code, see On
//	{"value": "engine.asyncRetention", "is": 1860000000000} a limit or default, see Value
//	{"sql": "state = 'FAILED'", "is": "1 = 1"}            a part of the SQL statements (of those that contain "in"), see SQL
//	{"row": "v1 networkVolume size", "is": {"Min": 0}}     facts of a row of the contract, see Row
//	{"data": "submission.input", "as": "double"}          JSON that is passed on in another encoding, see Data and wirefault/recode.go
//	{"wire": {...}}                                       an edit of requests or answers, see package wirefault
package fault
