"""The router with a key: it takes one on its command line only, where everyone on the machine could read it."""

from __future__ import annotations

import os
import sys


def main() -> None:
    from sglang_router.launch_router import launch_router, parse_router_args

    option, name, *words = sys.argv[1:]
    assert option == "--api-key-env"
    args = parse_router_args(words)
    args.api_key = os.environ[name]
    launch_router(args)


if __name__ == "__main__":
    main()
