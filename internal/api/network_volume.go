package api

import "github.com/gpucloud/terraform-provider-gpucloud/internal/contract"

// NetworkVolume is storage that outlives the pods and workers that mount it.
type NetworkVolume struct {
	ID         string  `json:"id,omitempty"`
	Name       string  `json:"name"` // need not be unique
	Size       int64   `json:"size"` // GB; can only grow
	DataCenter string  `json:"dataCenter"`
	Type       *string `json:"type,omitempty"` // storage tier, v2 only
}

// networkVolumes returns the part of the collection that both versions share. W is the wire type.
func networkVolumes[W NetworkVolume | networkVolumeV1](d *deployment, cache *listCache, version contract.API) *Collection[NetworkVolume] {
	update := func(have, want NetworkVolume) (patch, error) {
		return changedMembers(clearingValues(version, "networkVolume"), new(W(have.updatableMembers())), W(want.updatableMembers()))
	}
	return &Collection[NetworkVolume]{
		deployment: d, cache: cache, kind: "network volume",
		fixedMembersEqual: func(got, want NetworkVolume) bool {
			return got.DataCenter == want.DataCenter && agrees(got.Type, want.Type)
		},
		decode: decodeAs(func(w W) NetworkVolume { return NetworkVolume(w) }),
		create: func(want NetworkVolume) (any, error) {
			want.ID = ""
			return W(want), nil
		},
		update: update,
		// Both APIs reject setting the size that the volume already has.
		alreadyApplied: func(got, want NetworkVolume) bool {
			changes, err := update(got, want)
			return err == nil && len(changes) == 0
		},
	}
}

// updatableMembers returns v without the members that only a create sets.
func (v NetworkVolume) updatableMembers() NetworkVolume {
	v.ID, v.DataCenter, v.Type = "", "", nil
	return v
}

func networkVolumesV1(d *deployment, cache *listCache) *Collection[NetworkVolume] {
	r := networkVolumes[networkVolumeV1](d, cache, contract.V1)
	r.path = "/v1/networkvolumes"
	r.required = []string{"name", "size", "dataCenterId"}
	return r
}

// networkVolumeV1 has the fields of NetworkVolume.
type networkVolumeV1 struct {
	ID         string  `json:"id,omitempty"`
	Name       string  `json:"name"`
	Size       int64   `json:"size"`
	DataCenter string  `json:"dataCenterId"`
	Type       *string `json:"-"`
}

func networkVolumesV2(d *deployment, cache *listCache) *Collection[NetworkVolume] {
	r := networkVolumes[NetworkVolume](d, cache, contract.V2)
	r.path, r.member = "/v2/network-volumes", "networkVolumes"
	r.required = []string{"name", "size", "dataCenter", "type"}
	return r
}

// GlobalVolume is storage without a fixed size or location.
type GlobalVolume struct {
	ID              string  `json:"id,omitempty"`
	Name            string  `json:"name"`                // need not be unique
	CreatedAt       string  `json:"createdAt,omitempty"` // RFC 3339
	CreatedByUserID *string `json:"createdByUserId,omitempty"`
}

func globalVolumesV2(d *deployment, cache *listCache) *Collection[GlobalVolume] {
	return &Collection[GlobalVolume]{
		deployment: d, cache: cache, kind: "global volume", path: "/v2/global-volumes", member: "globalVolumes", required: []string{"name"},
		decode: decodePlain[GlobalVolume],
		create: func(want GlobalVolume) (any, error) { return GlobalVolume{Name: want.Name}, nil },
		update: func(have, want GlobalVolume) (patch, error) {
			return changedMembers(nil, &GlobalVolume{Name: have.Name}, GlobalVolume{Name: want.Name})
		},
	}
}
