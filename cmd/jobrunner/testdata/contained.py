"""A worker in a container, whose jobs report its environment or make it fail."""

import os
import sys
import time

import runpod

VOLUME = "/runpod-volume"
WORKER = os.environ["RUNPOD_POD_ID"]


def note(kind, text):
    if os.path.isdir(VOLUME):
        with open(os.path.join(VOLUME, kind), "a") as file:
            file.write(text + "\n")


def eat():
    """Allocates memory until none is left."""
    eaten = []
    while True:
        eaten.append(bytearray(os.urandom(1 << 20)) * 16)


def handler(job):
    order = job["input"]
    note("begins", f"{order['name']} {WORKER}")
    while order.get("wait") and not os.path.exists(os.path.join(VOLUME, order["wait"] + ".go")):
        time.sleep(0.01)
    time.sleep(order.get("ms", 0) / 1000)
    if order.get("eat"):
        eat()
    if "exit" in order:
        os._exit(order["exit"])
    env = {name: os.environ.get(name) for name in order.get("env", [])}
    return {"name": order["name"], "worker": WORKER, "args": sys.argv[1:], "env": env}


note("starts", WORKER)
print("it starts, and", os.environ.get("TOKEN"), "is its token", flush=True)
runpod.serverless.start({"handler": handler})
