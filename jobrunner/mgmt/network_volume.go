package mgmt

import (
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

type networkVolumeBodyV1 struct {
	Name       *string `json:"name"`
	Size       *int64  `json:"size"`
	DataCenter *string `json:"dataCenterId"`
}

type networkVolumeV1 struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Size       int64  `json:"size"`
	DataCenter string `json:"dataCenterId"`
}

type networkVolumeBodyV2 struct {
	Name       *string `json:"name"`
	Size       *int64  `json:"size"`
	DataCenter *string `json:"dataCenter"`
	Type       *string `json:"type"`
}

type networkVolumeV2 struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Size       int64  `json:"size"`
	DataCenter string `json:"dataCenter"`
	Type       string `json:"type"`
}

// createNetworkVolume creates a volume from a body of either version. A body without a tier gets the
// default of the data center; a tier that the data center doesn't have is rejected.
func createNetworkVolume[B any](c *call, body B) (store.NetworkVolume, error) {
	v := convert[B, store.NetworkVolume](body)
	tier, err := c.Catalog.Current().VolumeTier(v.DataCenter, v.Type)
	if err != nil {
		return v, store.Refusal(err.Error())
	}
	v.Type = tier
	return store.Create(c.ctx(), c.Store, v)
}

func updateNetworkVolume[B any](c *call, body B) (store.NetworkVolume, error) {
	return c.Store.UpdateNetworkVolume(c.ctx(), c.id, convert[B, store.VolumeChange](body))
}

// globalVolumeBodyV2 is the body of a create or an update. The name is trimmed.
type globalVolumeBodyV2 struct {
	Name *string `json:"name"`
}

type globalVolumeV2 struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Created time.Time `json:"createdAt"`
	Owner   *string   `json:"createdByUserId"`
}

func createGlobalVolumeV2(c *call, body globalVolumeBodyV2) (store.GlobalVolume, error) {
	return store.Create(c.ctx(), c.Store, store.GlobalVolume{Head: store.Head{Name: strings.TrimSpace(*body.Name)}, Owner: c.owner})
}

func updateGlobalVolumeV2(c *call, body globalVolumeBodyV2) (store.GlobalVolume, error) {
	return c.Store.RenameGlobalVolume(c.ctx(), c.id, strings.TrimSpace(*body.Name))
}
