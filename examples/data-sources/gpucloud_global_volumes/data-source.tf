data "gpucloud_global_volumes" "all" {}

output "global_volumes" {
  value = { for v in data.gpucloud_global_volumes.all.global_volumes : v.id => v.name }
}
