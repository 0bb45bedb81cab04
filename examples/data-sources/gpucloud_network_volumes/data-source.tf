data "gpucloud_network_volumes" "romania" {
  data_center = "EU-RO-1"
}

output "allocated_gb" {
  value = sum([for v in data.gpucloud_network_volumes.romania.network_volumes : v.size])
}
