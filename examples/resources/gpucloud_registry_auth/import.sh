terraform import gpucloud_registry_auth.example the-id-of-the-object
