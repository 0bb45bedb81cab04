package api

// GlobalVolume is storage without a fixed size or location.
type GlobalVolume struct {
	ID              string  `json:"id,omitempty"`
	Name            string  `json:"name"`                // need not be unique
	CreatedAt       string  `json:"createdAt,omitempty"` // RFC 3339
	CreatedByUserID *string `json:"createdByUserId,omitempty"`
}

func globalVolumesV2(d *deployment, cache *listCache) Collection[GlobalVolume] {
	type body struct {
		Name string `json:"name"`
	}
	return &restCollection[GlobalVolume]{
		deployment: d, cache: cache, kind: "global volume", path: "/v2/global-volumes", member: "globalVolumes", required: []string{"name"},
		id:     func(v GlobalVolume) string { return v.ID },
		name:   func(v GlobalVolume) string { return v.Name },
		decode: decodePlain[GlobalVolume],
		create: func(want GlobalVolume) (any, error) { return body{want.Name}, nil },
		update: func(have, want GlobalVolume) (patch, error) {
			return changedMembers(nil, &body{have.Name}, body{want.Name})
		},
	}
}
