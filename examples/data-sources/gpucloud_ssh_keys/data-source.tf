data "gpucloud_ssh_keys" "account" {}

output "key_types" {
  value = [for key in data.gpucloud_ssh_keys.account.keys : split(" ", key)[0]]
}
