"""Holds a CycloneDX document against the schema of its version, strictly: bom.py FILE."""

import pathlib
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(pathlib.Path(sys.argv[1]).read_text())
if problem:
    sys.exit(f"{sys.argv[1]} is no CycloneDX 1.6: {problem}")
