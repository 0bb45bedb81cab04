"""Answers {"name": "Ada"} with {"greeting": "Hello Ada!"}."""

import json
import os
import sys

name = json.load(sys.stdin)["name"]
print(json.dumps({"greeting": os.environ.get("GREETING", "Hello") + " " + name + "!"}))
