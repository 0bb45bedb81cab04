data "gpucloud_secrets" "all" {}

output "secret_names" {
  value = data.gpucloud_secrets.all.secrets[*].name
}
