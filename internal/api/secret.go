package api

import (
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

// Secret is an account secret. The API never returns Value.
type Secret struct {
	ID                 string `json:"id,omitempty"`
	Name               string `json:"name"` // unique in any case
	Value              string `json:"value,omitempty"`
	Description        string `json:"description,omitempty"`
	CreatedAt          string `json:"createdAt,omitempty"`          // RFC 3339
	ValueLastUpdatedAt string `json:"valueLastUpdatedAt,omitempty"` // RFC 3339; "" if unknown
}

// secretUpdate has the members that an update may set. An empty value isn't sent.
type secretUpdate struct {
	Value       string `json:"value,omitempty"`
	Description string `json:"description,omitempty"`
}

func secretsV2(d *deployment, cache *listCache) Collection[Secret] {
	return &restCollection[Secret]{
		deployment: d, cache: cache, kind: "secret", path: "/v2/account/secrets", member: "secrets", required: []string{"name"},
		id:          func(s Secret) string { return s.ID },
		name:        func(s Secret) string { return s.Name },
		uniqueNames: true,
		writeOnly:   true,
		decode:      decodePlain[Secret],
		create: func(want Secret) (any, error) {
			return Secret{Name: want.Name, Value: want.Value, Description: want.Description}, nil
		},
		update: func(have, want Secret) (patch, error) {
			if !strings.EqualFold(have.Name, want.Name) {
				return nil, errNoUpdate
			}
			return changedMembers(clearingValues(contract.V2, "secret"), &secretUpdate{Description: have.Description}, secretUpdate{want.Value, want.Description})
		},
	}
}
