data "gpucloud_template" "worker" {
  name = "worker"
}

# It follows the template, although another configuration manages that.
resource "gpucloud_endpoint" "worker" {
  name        = "worker"
  template_id = data.gpucloud_template.worker.id
}
