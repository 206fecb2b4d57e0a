"""The command's door. `--version` is answered before anything is imported."""

from __future__ import annotations

import sys


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        from . import __version__

        print(f"ullage {__version__}")
        return
    import signal

    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:  # Ctrl-C ends it without a word until it can say one
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import gc

    gc.set_threshold(50_000)  # imports make much and drop nothing; to collect between them costs some percent of a run
    from .cli.main import run

    signal.signal(signal.SIGINT, interrupted)
    run()


if __name__ == "__main__":
    main()
