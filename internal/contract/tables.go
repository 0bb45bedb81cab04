package contract

import "slices"

// Fields is the table of members, resource by resource.
var Fields = slices.Concat(
	templateV1, networkVolumeV1, registryAuthV1, endpointV1,
	templateV2, networkVolumeV2, registryAuthV2, endpointV2,
)

// Operations and Choices are the rest of the table.
var (
	Operations []Operation
	Choices    []Choice
)
