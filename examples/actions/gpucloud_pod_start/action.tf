variable "pod_id" {
  type = string
}

# terraform apply -invoke=action.gpucloud_pod_start.pod -var=pod_id=…
action "gpucloud_pod_start" "pod" {
  config {
    pod_id = var.pod_id
  }
}
