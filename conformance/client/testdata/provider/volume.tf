variable "size" {
  type    = number
  default = 20
}

resource "gpucloud_network_volume" "models" {
  name        = "client-of-conformance"
  size        = var.size
  data_center = "EU-RO-1"
}
