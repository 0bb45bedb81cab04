resource "gpucloud_registry_delegation" "app" {
  name     = "app"
  resource = "arn:aws:ecr:us-east-2:123456789012:repository/team/app"
}
