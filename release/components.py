"""Prints a list of components (CycloneDX) without what depends on the machine, and checks the licenses.

components.py FILE
"""

import json
import sys

# Licenses under which a binary may be given away with the texts that the archives contain.
ALLOWED = {"MIT", "BSD-2-Clause", "BSD-3-Clause", "BSD-Source-Code", "Apache-2.0", "ISC", "MPL-2.0"}

with open(sys.argv[1], encoding="utf-8") as file:
    document = json.load(file)
for tool in document["metadata"]["tools"]:
    tool.pop("hashes", None)  # of the tool's binary, which each machine builds for itself
wrong = []
for component in document["components"]:
    if component["name"] == "std":
        component["licenses"] = [{"license": {"id": "BSD-3-Clause"}}]  # the tool does not find Go's own
    names = {entry.get("license", {}).get("id", "none") for entry in component.get("licenses", [])}
    if not names or not names <= ALLOWED:
        wrong.append(f"{component['name']} {component.get('version')}: license {', '.join(sorted(names)) or 'not found'}")
if wrong:
    sys.exit("\n".join([*wrong, "check each license, and add it to ALLOWED of release/components.py if it may be used"]))
json.dump(document, sys.stdout, indent=1, ensure_ascii=False)
print()
