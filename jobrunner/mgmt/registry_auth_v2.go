package mgmt

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"

// registryAuthBodyV2 is the body of a create; there is no update.
type registryAuthBodyV2 struct {
	Name     *string `json:"name"`
	Username *string `json:"username"`
	Password *string `json:"password"`
}

func createRegistryAuthV2(c *call, body registryAuthBodyV2) (store.RegistryAuth, error) {
	return createRegistryAuthV1(c, registryAuthBodyV1(body))
}
