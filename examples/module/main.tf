# A queue endpoint with its template. variables.tf validates the inputs, outputs.tf has the
# results, tests/ runs the module against a deployment.

resource "gpucloud_template" "worker" {
  name       = var.name
  image      = var.image
  env        = var.env
  category   = "CPU"
  serverless = true
}

resource "gpucloud_endpoint" "worker" {
  name        = var.name
  template_id = gpucloud_template.worker.id
  cpu         = [{ id = "cpu3c", vcpu_count = 2 }]
  workers     = { max = var.max_workers }
}

# The watched job. Without its result, plan and apply fail.
data "gpucloud_job" "watched" {
  count       = var.watched_job == null ? 0 : 1
  endpoint_id = gpucloud_endpoint.worker.id
  id          = var.watched_job
}

# Warns in every plan and apply while the job isn't COMPLETED.
check "watched_job" {
  assert {
    condition     = alltrue([for job in data.gpucloud_job.watched : job.status == "COMPLETED"])
    error_message = join("\n", [for job in data.gpucloud_job.watched : "Job ${job.id} is ${job.status}: ${coalesce(job.error, "no error")}"])
  }
}
