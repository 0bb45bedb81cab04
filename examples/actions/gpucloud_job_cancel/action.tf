variable "endpoint_id" {
  type = string
}

variable "job_id" {
  type = string
}

# terraform apply -invoke=action.gpucloud_job_cancel.job -var=endpoint_id=… -var=job_id=…
action "gpucloud_job_cancel" "job" {
  config {
    endpoint_id = var.endpoint_id
    job_id      = var.job_id
  }
}
