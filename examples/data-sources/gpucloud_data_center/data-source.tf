data "gpucloud_data_center" "romania" {
  id      = "EU-RO-1"
  include = ["GPU_AVAILABILITY"]
}

output "gpus_in_romania" {
  value = [for g in data.gpucloud_data_center.romania.gpu_availability : g.id if g.availability != "NONE"]
}
