"""The JSON schema that lets editors complete and check a runs.yaml.

`python -m rqps.study.schema > runs.schema.json` writes it anew.
"""

import json
from typing import Any

from rqps.study.runs_file import RunsFile
from rqps.workloads import PARAMETERS


def runs_schema() -> dict[str, Any]:
    """The models' own schema, in which each workload brings that of its parameters."""
    schema = RunsFile.model_json_schema()
    study = schema["$defs"]["StudySpec"]
    study["properties"]["workload"]["enum"] = list(PARAMETERS)
    whole = study.pop("required")
    study["anyOf"] = [{"required": whole}, {"required": ["extends"]}]
    study["allOf"] = []
    for workload, model in PARAMETERS.items():
        parameters = model.model_json_schema(ref_template=f"#/$defs/{model.__name__}/$defs/{{model}}")
        schema["$defs"][model.__name__] = parameters
        study["allOf"].append(
            {
                "if": {"properties": {"workload": {"const": workload}}},
                "then": {"properties": {"parameters": {"$ref": f"#/$defs/{model.__name__}"}}},
            }
        )
    return {"$schema": "http://json-schema.org/draft-07/schema#", **schema}


def schema_text() -> str:
    return json.dumps(runs_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
