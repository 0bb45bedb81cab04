package api

import "github.com/gpucloud/terraform-provider-gpucloud/internal/contract"

// Management API v1 has flat bodies, bare arrays as lists, PATCH for updates, and answers the
// deletion of an unknown id with 400. A neutral field that it can't return is nil or empty. If
// it can't express a value, the conversion fails before anything is sent. Fields that it lacks
// entirely are omitted, because the plan rejects them.

func networkVolumesV1(d *deployment, cache *listCache) Collection[NetworkVolume] {
	r := networkVolumes(d, cache, func(have, want NetworkVolume) (patch, error) {
		return changedMembers(nil, new(newNetworkVolumeV1(have.mutable())), newNetworkVolumeV1(want.mutable()))
	})
	r.path, r.unknownIDIs400 = "/v1/networkvolumes", true
	r.required = []string{"name", "size", "dataCenterId"}
	r.decode = decodeAs(networkVolumeV1.neutral)
	r.create = func(want NetworkVolume) (any, error) { return newNetworkVolumeV1(want), nil }
	return r
}

type networkVolumeV1 struct {
	ID           string `json:"id,omitempty"`
	Name         string `json:"name"`
	Size         int64  `json:"size"`
	DataCenterID string `json:"dataCenterId"`
}

// newNetworkVolumeV1 makes a request body.
func newNetworkVolumeV1(v NetworkVolume) networkVolumeV1 {
	return networkVolumeV1{Name: v.Name, Size: v.Size, DataCenterID: v.DataCenter}
}

func (w networkVolumeV1) neutral() NetworkVolume {
	return NetworkVolume{ID: w.ID, Name: w.Name, Size: w.Size, DataCenter: w.DataCenterID}
}

func registryAuthsV1(d *deployment, cache *listCache) Collection[RegistryAuth] {
	r := registryAuths(d, cache)
	r.path, r.unknownIDIs400 = "/v1/containerregistryauth", true
	return r
}

// changedV1 compares two objects in their wire form. If v1 can't express have, every member of
// want counts as changed.
func changedV1[T, W any](resource string, form func(T) (W, error), have, want T) (p patch, after W, err error) {
	if after, err = form(want); err != nil {
		return nil, after, err
	}
	var before *W
	if w, err := form(have); err == nil {
		before = &w
	}
	p, err = changedMembers(clearingValues(contract.V1, resource), before, after)
	return p, after, err
}

// completeGroups adds members to an update: the members of a group have a joint meaning and are
// sent together.
func completeGroups(p patch, want any, groups [][]string) error {
	all, err := members(want)
	if err != nil {
		return err
	}
	for _, group := range groups {
		for _, name := range group {
			if _, ok := p[name]; !ok {
				continue
			}
			for _, other := range group {
				if value, ok := all[other]; ok {
					p[other] = value
				}
			}
		}
	}
	return nil
}
