package mgmt

import (
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// networkVolumeBodyV1 is the body of a create or an update.
type networkVolumeBodyV1 struct {
	Name         *string `json:"name"`
	Size         *int64  `json:"size"`
	DataCenterID *string `json:"dataCenterId"`
}

func (b *networkVolumeBodyV1) check(u contract.Use) []string { return requireChange(u, b) }

// networkVolumeV1 is a network volume in an answer.
type networkVolumeV1 struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Size         int64  `json:"size"`
	DataCenterID string `json:"dataCenterId"`
}

func newNetworkVolumeV1(v store.NetworkVolume) networkVolumeV1 {
	return networkVolumeV1{ID: v.ID, Name: v.Name, Size: v.Size, DataCenterID: v.DataCenter}
}

func createNetworkVolumeV1(c *call, body networkVolumeBodyV1) (store.NetworkVolume, error) {
	return c.createNetworkVolume(store.NetworkVolume{Head: store.Head{Name: *body.Name}, Size: *body.Size, DataCenter: *body.DataCenterID})
}

func updateNetworkVolumeV1(c *call, body networkVolumeBodyV1) (store.NetworkVolume, error) {
	return c.store.UpdateNetworkVolume(c.ctx(), c.id, store.VolumeChange{Name: body.Name, Size: body.Size})
}
