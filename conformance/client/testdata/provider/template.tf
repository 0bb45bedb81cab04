resource "gpucloud_template" "worker" {
  name       = "client-of-conformance"
  image      = "registry.example.com/worker:1"
  serverless = true
}
