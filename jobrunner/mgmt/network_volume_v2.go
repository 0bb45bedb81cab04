package mgmt

import (
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// ownTier is the tier of a volume that names none: that of its data center.
var ownTier = catalog.VolumeTypes[0]

// networkVolumeBodyV2 is the body of a create or an update.
type networkVolumeBodyV2 struct {
	Name       *string `json:"name" rule:"must=create min=1"`
	Size       *int64  `json:"size" rule:"must=create min=10 max=4096"`
	DataCenter *string `json:"dataCenter" rule:"must=create only=create min=1"`
	Type       *string `json:"type" rule:"only=create oneof=STANDARD,HIGH_PERFORMANCE"`
}

func (b *networkVolumeBodyV2) check(p phase) []string {
	return requireChange(p, b.Name != nil || b.Size != nil)
}

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

func createNetworkVolumeV2(s *server, c *call, body networkVolumeBodyV2) (store.NetworkVolume, error) {
	v := store.NetworkVolume{Head: store.Head{Name: *body.Name}, Size: *body.Size, DataCenter: *body.DataCenter, Type: ownTier}
	set(&v.Type, body.Type)
	return s.store.CreateNetworkVolume(c.ctx(), v)
}

func updateNetworkVolumeV2(s *server, c *call, body networkVolumeBodyV2) (store.NetworkVolume, error) {
	return s.store.UpdateNetworkVolume(c.ctx(), c.id, store.VolumeChange{Name: body.Name, Size: body.Size})
}
