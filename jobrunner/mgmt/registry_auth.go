package mgmt

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"

// registryAuthBodyV1 is the body of a create; there is no update.
type registryAuthBodyV1 struct {
	Name     *string `json:"name"`
	Username *string `json:"username"`
	Password *string `json:"password"`
}

type registryAuthBodyV2 registryAuthBodyV1

// registryAuth is a registry auth in an answer of either version. An answer never shows credentials.
type registryAuth struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func createRegistryAuth[B registryAuthBodyV1 | registryAuthBodyV2](c *call, body B) (store.RegistryAuth, error) {
	return c.store.CreateRegistryAuth(c.ctx(), *registryAuthBodyV1(body).Name, convert[B, store.Credentials](body))
}
