# By id, or by a name that only one object has.
import {
  to = gpucloud_registry_auth.example
  id = "the-id-of-the-object"
}

# By identity: Terraform 1.12 and later.
import {
  to = gpucloud_registry_auth.example
  identity = {
    id = "the-id-of-the-object"
  }
}
