# By id, or by the name where only one has it.
terraform import gpucloud_secret.example the-id-of-the-object
terraform import gpucloud_secret.example the-name-of-the-object
