package resources

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/migrate"
)

// movedRegistryAuth takes over the user name. The password stays in the other provider's
// state: the API keeps it, and password_wo_version = 1 in a configuration stands for that password.
var movedRegistryAuth = migrate.Table[registryAuth]{
	migrate.Official1: moveRegistryAuth,
	migrate.Official2: moveRegistryAuth,
}

func moveRegistryAuth(_ context.Context, from *migrate.State, m *registryAuth) error {
	if m.Username = text(from.Text("username")); !m.Username.IsNull() {
		m.PasswordWOVersion = types.Int64Value(1)
	}
	return nil
}

// movedRegistryDelegation takes over how the repository was written: with or without the
// tag that is the default.
var movedRegistryDelegation = migrate.Table[registryDelegation]{
	migrate.Official1: moveRegistryDelegation,
	migrate.Official2: moveRegistryDelegation,
}

func moveRegistryDelegation(_ context.Context, from *migrate.State, m *registryDelegation) error {
	m.Resource = text(from.Text("resource"))
	return nil
}
