package contract

// Operations, Fields and Choices are the table.
var (
	Operations []Operation
	Fields     []Field
	Choices    []Choice
)
