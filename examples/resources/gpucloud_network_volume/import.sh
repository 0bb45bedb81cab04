terraform import gpucloud_network_volume.example the-id-of-the-object
