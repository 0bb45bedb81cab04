resource "gpucloud_global_volume" "models" {
  name                = "models"
  deletion_protection = false # true refuses every plan that would delete it
}
