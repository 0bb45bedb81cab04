resource "gpucloud_global_volume" "models" {
  name                = "models"
  deletion_protection = true
}
