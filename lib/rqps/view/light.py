"""Makes the import of altair light; to be imported before it.

Where the package rfc3987-syntax is installed, as it is with JupyterLab, jsonschema builds a grammar of web addresses
from it on import. That takes more than a second, in every run, and no chart has an address to check.
"""

import sys

sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
