package mgmt

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"

// registryAuthBodyV1 is the body of a create; there is no update.
type registryAuthBodyV1 struct {
	Name     *string `json:"name"`
	Username *string `json:"username"`
	Password *string `json:"password"`
}

type registryAuthBodyV2 registryAuthBodyV1

// registryAuth is a registry auth in an answer of either version. An answer never
// shows credentials.
type registryAuth struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func createRegistryAuthV1(c *call, body registryAuthBodyV1) (store.RegistryAuth, error) {
	return c.store.CreateRegistryAuth(c.ctx(), *body.Name, copied[registryAuthBodyV1, store.Credentials](body))
}

func createRegistryAuthV2(c *call, body registryAuthBodyV2) (store.RegistryAuth, error) {
	return createRegistryAuthV1(c, registryAuthBodyV1(body))
}
