terraform import gpucloud_template.example the-id-of-the-object
