# size may grow in place. A smaller one is refused in the plan.
resource "gpucloud_network_volume" "models" {
  name        = "models"
  size        = 100
  data_center = "EU-RO-1"
}
