data "gpucloud_network_volumes" "romania" {
  data_center = "EU-RO-1"
}

# sum([]) fails.
output "allocated_gb" {
  value = sum(concat([0], data.gpucloud_network_volumes.romania.network_volumes[*].size))
}
