"""Whether a server takes as many clients as a load has, asked of the server itself."""

from rqps.engines.instance import Connection, query
from rqps.errors import RqpsError
from rqps.study import Parameters


def check_connections(connection: Connection, parameters: Parameters) -> None:
    """Refuses a load that would find the server full in the middle of a step."""
    most, asked = int(query(connection, "SELECT @@max_connections")[0][0]), parameters.connections
    if asked.needed > most:
        raise RqpsError(
            f"max_connections is {most}, and {asked.clients} {asked.parameter} are asked for, "
            f"with {asked.ours} connections beside theirs",
            fix=f"set max_connections to {asked.needed} or more in the config, or ask for fewer {asked.parameter}",
        )
