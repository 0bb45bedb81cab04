data "gpucloud_template" "worker" {
  name = "worker"
}

# Follows a template that another configuration manages.
resource "gpucloud_endpoint" "worker" {
  name        = "worker"
  template_id = data.gpucloud_template.worker.id
}
