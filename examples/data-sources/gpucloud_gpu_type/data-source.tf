data "gpucloud_gpu_type" "l4" {
  name = "L4"
}

resource "gpucloud_endpoint" "l4" {
  name  = "l4"
  image = "builtin/echo"
  gpu   = { pools = [data.gpucloud_gpu_type.l4.pool] }
}
