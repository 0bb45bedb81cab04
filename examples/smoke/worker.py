"""Adds the numbers of {"numbers": […]}."""

import json
import sys

print(json.dumps({"sum": sum(json.load(sys.stdin)["numbers"])}))
