package contract

import "slices"

// Operations is the table of methods and paths, API by API.
var Operations = slices.Concat(operationsV1, operationsV2, operationsJobs)

// operations sets the API of the operations and adds the codes that all of them may return.
func operations(api API, common []int, ops ...Operation) []Operation {
	for i := range ops {
		ops[i].API = api
		ops[i].Errors = append(ops[i].Errors, common...)
		slices.Sort(ops[i].Errors)
	}
	return ops
}

type detail func(*Operation)

// op returns an operation. Its resource is "" if its bodies have no members in the table.
func op(method, path, resource string, success int, source string, details ...detail) Operation {
	row := Operation{Method: method, Path: path, Resource: resource, Success: []int{success}, Source: source}
	for _, set := range details {
		set(&row)
	}
	return row
}

func query(names ...string) detail { return func(o *Operation) { o.Query = names } }
func orStatus(success int) detail {
	return func(o *Operation) { o.Success = append(o.Success, success) }
}
func fails(codes ...int) detail { return func(o *Operation) { o.Errors = codes } }
func opNote(text string) detail { return func(o *Operation) { o.Note = text } }
