# Each account has one.
import {
  to = gpucloud_ssh_keys.example
  id = "account"
}

# By identity: Terraform 1.12 and later.
import {
  to = gpucloud_ssh_keys.example
  identity = {
    id = "account"
  }
}
