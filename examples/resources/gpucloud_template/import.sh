# By id, or by the name where only one has it.
terraform import gpucloud_template.example the-id-of-the-object
terraform import gpucloud_template.example the-name-of-the-object
# From another provider for this API: a moved block (see the guide "Migrate from another provider").
