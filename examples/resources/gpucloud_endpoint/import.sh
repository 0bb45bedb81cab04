terraform import gpucloud_endpoint.example the-id-of-the-object
