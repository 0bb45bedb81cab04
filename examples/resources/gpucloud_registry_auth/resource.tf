variable "registry_token" {
  type      = string
  ephemeral = true
  default   = "none"
}

# Since Terraform 1.11, neither state nor plan contains the token.
resource "gpucloud_registry_auth" "ci" {
  name                = "ci"
  username            = "robot"
  password_wo         = var.registry_token
  password_wo_version = 1 # raise it to send a new token
}
