package mgmt

import (
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// networkVolumeBodyV2 is the body of a create or an update.
type networkVolumeBodyV2 struct {
	Name       *string `json:"name"`
	Size       *int64  `json:"size"`
	DataCenter *string `json:"dataCenter"`
	Type       *string `json:"type"`
}

func (b *networkVolumeBodyV2) check(u contract.Use) []string { return requireChange(u, b) }

// networkVolumeV2 is a network volume in an answer.
type networkVolumeV2 struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Size       int64  `json:"size"`
	DataCenter string `json:"dataCenter"`
	Type       string `json:"type"`
}

func newNetworkVolumeV2(v store.NetworkVolume) networkVolumeV2 {
	return networkVolumeV2{ID: v.ID, Name: v.Name, Size: v.Size, DataCenter: v.DataCenter, Type: v.Type}
}

func createNetworkVolumeV2(c *call, body networkVolumeBodyV2) (store.NetworkVolume, error) {
	v := store.NetworkVolume{Head: store.Head{Name: *body.Name}, Size: *body.Size, DataCenter: *body.DataCenter}
	setIfPresent(&v.Type, body.Type)
	return c.createNetworkVolume(v)
}

// createNetworkVolume creates a volume. If it names no tier, it gets the tier of its data center; a
// tier that the data center doesn't have is rejected.
func (c *call) createNetworkVolume(v store.NetworkVolume) (store.NetworkVolume, error) {
	tier, err := c.Catalog.Now().VolumeTier(v.DataCenter, v.Type)
	if err != nil {
		return v, store.Refusal(err.Error())
	}
	v.Type = tier
	return c.store.CreateNetworkVolume(c.ctx(), v)
}

func updateNetworkVolumeV2(c *call, body networkVolumeBodyV2) (store.NetworkVolume, error) {
	return c.store.UpdateNetworkVolume(c.ctx(), c.id, store.VolumeChange{Name: body.Name, Size: body.Size})
}
