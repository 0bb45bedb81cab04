data "gpucloud_registry_delegations" "ohio" {
  aws_region = "us-east-2"
}

output "repositories" {
  value = toset([for d in data.gpucloud_registry_delegations.ohio.registry_delegations : d.repository])
}
