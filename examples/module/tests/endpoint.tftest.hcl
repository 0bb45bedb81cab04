# The runs create objects at GPUCLOUD_BASE_URL and delete them at the end. With a jobrunner
# they are free; jobrunner.yaml has a rule for the image.

provider "gpucloud" {}

variables {
  name  = "module-test"
  image = "registry.example.com/team/hello:1"
}

run "refuses_latest" {
  command = plan

  variables {
    image = "registry.example.com/team/hello" # means latest
  }

  expect_failures = [var.image]
}

run "creates_an_endpoint" {
  assert {
    condition     = gpucloud_endpoint.worker.workers.max == 1
    error_message = "Expected one worker at most, got ${gpucloud_endpoint.worker.workers.max}."
  }

  assert {
    condition     = endswith(output.run_url, "/v2/${output.endpoint_id}/run")
    error_message = "Invalid run_url: ${output.run_url}"
  }
}

run "answers_a_job" {
  module {
    source = "./tests/answers"
  }

  variables {
    endpoint_id = run.creates_an_endpoint.endpoint_id
    greeting    = "Hello Ada!"
  }
}

run "follows_a_new_image" {
  variables {
    image = "registry.example.com/team/hello:2"
    env   = { GREETING = "Good morning" }
  }

  assert {
    condition     = gpucloud_endpoint.worker.from_template.image == "registry.example.com/team/hello:2"
    error_message = "The workers have the image ${gpucloud_endpoint.worker.from_template.image}."
  }
}

run "answers_with_the_new_environment" {
  module {
    source = "./tests/answers"
  }

  variables {
    endpoint_id = run.follows_a_new_image.endpoint_id
    greeting    = "Good morning Ada!"
  }
}
