"""`python -m pipeline.container_health`: a container's health check. The exit code is the answer.

Asks the process beside it, by the address that process was given: a worker on TALLY_METRICS, else
the web API on TALLY_WEB. A worker is well when it says so. Of the web API any answer will do: it
says 503 when the pipeline is not well, and a new start of the web API would not mend that.
"""

import http.client
import os
import sys

from schemas.host_port import split_host_port
from schemas.settings import Settings

TIMEOUT_S = 4.0


def is_well(environment: dict[str, str]) -> bool:
    """Whether the process answers. Blocks for TIMEOUT_S at most; never raises for the network."""
    metrics = environment.get("TALLY_METRICS")
    address = metrics or environment.get("TALLY_WEB") or str(Settings.model_fields["web"].default)
    connection = http.client.HTTPConnection(
        "127.0.0.1", split_host_port(address)[1], timeout=TIMEOUT_S
    )
    try:
        connection.request("GET", "/health")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return not metrics or status == http.HTTPStatus.OK


if __name__ == "__main__":
    sys.exit(0 if is_well(dict(os.environ)) else 1)
