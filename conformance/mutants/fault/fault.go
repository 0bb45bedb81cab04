// Package fault gives a jobrunner the fault of a mutant, or the difference of a variant. The
// product doesn't import it: the patches in ../patches do, and ../overlay builds a jobrunner with
// them.
//
// The environment variable GPUCLOUD_FAULT has one fault, or a list of faults, as JSON:
//
//	{"point": "retry-any-state"}                          a place in the code, see On
//	{"value": "engine.asyncRetention", "is": 1860000000000} a limit or default, see Value
//	{"sql": "state = 'FAILED'", "is": "1 = 1"}            a part of SQL statements, or only of statements that contain "in", see SQL
//	{"row": "v1 networkVolume size", "is": {"Min": 0}}     facts of a row of the contract, see Row
//	{"data": "submission.input", "as": "double"}          JSON that is stored in another encoding, see Data and wirefault/recode.go
//	{"wire": {...}}                                       an edit of requests or answers, see package wirefault
package fault
