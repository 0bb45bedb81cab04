data "gpucloud_pod" "notebook" {
  name = "notebook"
}

output "notebook_status" {
  value = data.gpucloud_pod.notebook.status
}
