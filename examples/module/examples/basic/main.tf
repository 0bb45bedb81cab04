# An endpoint for an image of the team. For a jobrunner, ../../tests/jobrunner.yaml has a
# rule for it.

module "worker" {
  source = "../.."

  name  = "hello"
  image = "registry.example.com/team/hello:1"
}

output "run_url" {
  value = module.worker.run_url
}
