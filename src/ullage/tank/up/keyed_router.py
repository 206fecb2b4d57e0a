"""The router with a key: it takes one on its command line only, where everyone on the machine could read it."""

from __future__ import annotations

import os
import sys

from .plan import KEY_VARIABLE


def main() -> None:
    from sglang_router.launch_router import launch_router, parse_router_args

    args = parse_router_args(sys.argv[1:])
    args.api_key = os.environ[KEY_VARIABLE]
    launch_router(args)


if __name__ == "__main__":
    main()
