variable "image" {
  type    = string
  default = "registry.example.com/worker:4"
}

resource "gpucloud_endpoint" "upscale" {
  name  = "upscale"
  image = var.image

  # A smoke test after each create and update.
  lifecycle {
    action_trigger {
      events  = [after_create, after_update]
      actions = [action.gpucloud_job_run.smoke]
    }
  }
}

action "gpucloud_job_run" "smoke" {
  config {
    endpoint_id      = gpucloud_endpoint.upscale.id # from Terraform 1.16: caller.id
    input            = jsonencode({ width = 64, height = 64 })
    timeout          = "5m"
    expected_members = jsonencode({ width = 64, height = 64 })
  }
}
