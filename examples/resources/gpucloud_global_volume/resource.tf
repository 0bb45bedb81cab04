resource "gpucloud_global_volume" "models" {
  name                = "models"
  deletion_protection = false # true rejects every plan that would delete it
}
