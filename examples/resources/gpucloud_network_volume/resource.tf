# size can grow in place; the plan rejects a smaller one.
resource "gpucloud_network_volume" "models" {
  name        = "models"
  size        = 100
  data_center = "EU-RO-1"
}
