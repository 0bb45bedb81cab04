# By id, or by the name where only one has it.
terraform import gpucloud_global_volume.example the-id-of-the-object
terraform import gpucloud_global_volume.example the-name-of-the-object
