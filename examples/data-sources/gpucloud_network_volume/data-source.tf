# A volume that another configuration manages.
data "gpucloud_network_volume" "models" {
  name = "models"
}

resource "gpucloud_endpoint" "reader" {
  name            = "reader"
  image           = "builtin/echo"
  data_center_ids = [data.gpucloud_network_volume.models.data_center]
  network_volumes = [data.gpucloud_network_volume.models.id]
}
