"""Returns {"greeting": "Hello Ada!"} for {"name": "Ada"}."""

import json
import os
import sys

name = json.load(sys.stdin)["name"]
print(json.dumps({"greeting": os.environ.get("GREETING", "Hello") + " " + name + "!"}))
