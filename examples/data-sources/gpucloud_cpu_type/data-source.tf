data "gpucloud_cpu_type" "compute" {
  id = "cpu3c"
}

resource "gpucloud_endpoint" "cpu" {
  name  = "cpu"
  image = "builtin/echo"
  cpu   = [{ id = data.gpucloud_cpu_type.compute.id, vcpu_count = data.gpucloud_cpu_type.compute.vcpu.min }]
}
