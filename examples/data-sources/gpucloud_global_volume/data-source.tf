data "gpucloud_global_volume" "models" {
  name = "models"
}

output "models_created" {
  value = data.gpucloud_global_volume.models.created_at
}
