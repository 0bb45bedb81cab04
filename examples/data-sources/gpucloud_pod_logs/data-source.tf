data "gpucloud_pod" "notebook" {
  name = "notebook"
}

data "gpucloud_pod_logs" "last" {
  pod_id = data.gpucloud_pod.notebook.id
  tail   = 10
}

output "last_lines" {
  value = data.gpucloud_pod_logs.last.lines
}
