package mgmt

import (
	"strings"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// globalVolumeBodyV2 is the body of a create or an update. The name is trimmed.
type globalVolumeBodyV2 struct {
	Name *string `json:"name"`
}

// globalVolumeV2 is a global volume in an answer.
type globalVolumeV2 struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Created time.Time `json:"createdAt"`
	Owner   *string   `json:"createdByUserId"`
}

func createGlobalVolumeV2(c *call, body globalVolumeBodyV2) (store.GlobalVolume, error) {
	return c.store.CreateGlobalVolume(c.ctx(), store.GlobalVolume{Head: store.Head{Name: strings.TrimSpace(*body.Name)}, Owner: c.owner})
}

func updateGlobalVolumeV2(c *call, body globalVolumeBodyV2) (store.GlobalVolume, error) {
	return c.store.RenameGlobalVolume(c.ctx(), c.id, strings.TrimSpace(*body.Name))
}
