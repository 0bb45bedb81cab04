variable "pod_id" {
  type = string
}

# terraform apply -invoke=action.gpucloud_pod_restart.pod -var=pod_id=…
action "gpucloud_pod_restart" "pod" {
  config {
    pod_id = var.pod_id
  }
}
