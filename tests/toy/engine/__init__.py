"""A toy: all that is known of it before any build is here. `engine` starts its servers."""

from rqps.engines import Facts

facts = Facts(
    name="toy",
    title="Toy",
    program="toyd",
    log="toyd.log",
    example="1.0",
    ours=frozenset({"socket"}),
    processes=r"--socket=\S*/{private}[^/]+/toyd\.sock",
    socket="toyd.sock",
    roles={"connection": "toy_serve", "main": "toyd"},
    serves="^toy_serve$",
)
