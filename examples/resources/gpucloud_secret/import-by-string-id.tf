# By id, or by the name where only one has it.
import {
  to = gpucloud_secret.example
  id = "the-id-of-the-object"
}

# By identity: Terraform 1.12 and later.
import {
  to = gpucloud_secret.example
  identity = {
    id = "the-id-of-the-object"
  }
}
