# European data centers with fast volumes.
data "gpucloud_data_centers" "fast" {
  regions              = ["EUROPE"]
  network_volume_types = ["HIGH_PERFORMANCE"]
}

resource "gpucloud_network_volume" "fast" {
  name        = "fast"
  size        = 50
  type        = "HIGH_PERFORMANCE"
  data_center = data.gpucloud_data_centers.fast.data_centers[0].id
}
