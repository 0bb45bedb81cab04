terraform import gpucloud_ssh_keys.example account
# From another provider for this API: a moved block (see the guide "Migrate from another provider").
