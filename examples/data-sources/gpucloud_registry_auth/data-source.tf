# No API returns the password.
data "gpucloud_registry_auth" "ci" {
  name = "ci"
}

resource "gpucloud_template" "private" {
  name       = "private-image"
  image      = "registry.example/team/worker:3"
  registry   = data.gpucloud_registry_auth.ci.id
  serverless = true
}
