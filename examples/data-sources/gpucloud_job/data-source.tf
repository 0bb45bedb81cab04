variable "job_id" {
  type = string
}

data "gpucloud_endpoint" "inference" {
  name = "inference"
}

data "gpucloud_job" "nightly" {
  endpoint_id = data.gpucloud_endpoint.inference.id
  id          = var.job_id
}

check "nightly_job" {
  assert {
    condition     = data.gpucloud_job.nightly.status == "COMPLETED"
    error_message = "The job is ${data.gpucloud_job.nightly.status}."
  }
}
