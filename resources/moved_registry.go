package resources

import (
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/migrate"
)

// movedRegistryAuth takes over the user name. The API keeps the password: password_wo_version =
// 1 in a configuration stands for it, and nothing is sent.
var movedRegistryAuth = migrate.Table[registryAuth]{
	migrate.Official1: moveRegistryAuth,
	migrate.Official2: moveRegistryAuth,
}

func moveRegistryAuth(from *migrate.State, m *registryAuth) {
	if m.Username = text(from.Text("username")); !m.Username.IsNull() {
		m.PasswordWOVersion = types.Int64Value(1)
	}
}

// movedRegistryDelegation takes over the spelling of the repository, with or without the
// default tag.
var movedRegistryDelegation = migrate.Table[registryDelegation]{
	migrate.Official1: moveRegistryDelegation,
	migrate.Official2: moveRegistryDelegation,
}

func moveRegistryDelegation(from *migrate.State, m *registryDelegation) {
	m.Resource = text(from.Text("resource"))
}
