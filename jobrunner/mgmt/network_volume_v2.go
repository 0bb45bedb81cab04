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
	return anythingSaid(p, b.Name != nil || b.Size != nil)
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

type networkVolumesV2 struct {
	NetworkVolumes []networkVolumeV2 `json:"networkVolumes"`
}

func (s *server) listNetworkVolumesV2(c *call) (any, error) {
	all, err := s.store.NetworkVolumes(c.ctx())
	return networkVolumesV2{each(all, newNetworkVolumeV2)}, err
}

func (s *server) getNetworkVolumeV2(c *call) (any, error) {
	v, err := s.store.NetworkVolume(c.ctx(), c.id)
	return newNetworkVolumeV2(v), err
}

func (s *server) createNetworkVolumeV2(c *call) (any, error) {
	body, err := decode[networkVolumeBodyV2](c, creating)
	if err != nil {
		return nil, err
	}
	v := store.NetworkVolume{Head: store.Head{Name: *body.Name}, Size: *body.Size, DataCenter: *body.DataCenter, Type: ownTier}
	set(&v.Type, body.Type)
	v, err = s.store.CreateNetworkVolume(c.ctx(), v)
	return newNetworkVolumeV2(v), err
}

func (s *server) updateNetworkVolumeV2(c *call) (any, error) {
	body, err := decode[networkVolumeBodyV2](c, updating)
	if err != nil {
		return nil, err
	}
	v, err := s.store.UpdateNetworkVolume(c.ctx(), c.id, store.VolumeChange{Name: body.Name, Size: body.Size})
	return newNetworkVolumeV2(v), err
}
