data "gpucloud_registry_delegation" "app" {
  name = "app"
}

output "app_image" {
  value = "${data.gpucloud_registry_delegation.app.docker_registry_uri}/${data.gpucloud_registry_delegation.app.repository}:${data.gpucloud_registry_delegation.app.tag}"
}
