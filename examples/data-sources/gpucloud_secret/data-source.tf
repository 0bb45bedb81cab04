data "gpucloud_secret" "hub" {
  name = "hub_token"
}

output "hub_token_updated" {
  value = data.gpucloud_secret.hub.value_last_updated_at
}
