data "gpucloud_registry_auths" "all" {}

output "registry_auth_ids" {
  value = { for a in data.gpucloud_registry_auths.all.registry_auths : a.name => a.id }
}
