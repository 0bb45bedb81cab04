// Package fault makes a jobrunner wrong in one chosen place, to prove that the
// conformance suite notices. The product does not import it: the patches in
// ../patches do, and ../overlay builds a jobrunner with them.
//
// The same makes it different in places where the contract leaves a choice, to
// prove that the suite fails nothing that is merely different.
//
// A fault, or a list of them, is chosen at the start of the process by
// GPUCLOUD_FAULT, as JSON:
//
//	{"point": "retry-any-state"}                          a place in the code, asked by On
//	{"value": "engine.asyncRetention", "is": 1860000000000} a limit or default, see Value
//	{"sql": "state = 'FAILED'", "is": "1 = 1"}            a piece of the statements (that contain "in"), see SQL
//	{"rule": "volumeBodyV1.size", "is": "min=0"}          what a member of a body must obey, see Rule
//	{"data": "submission.input", "as": "double"}          JSON that is recoded on its way, see Data and recode.go
//	{"wire": {...}}                                       an edit of requests or answers, see Handler
//	{"again": {...}}                                      what was refused is carried out, see Handler
package fault
