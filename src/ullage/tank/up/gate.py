"""The first steps of a child: it waits until its name is written down, so that nothing runs that `down` would not know.

Run as a file, without a package, since it is to cost nothing: `python -S -E gate.py FD COMMAND...`
"""

import os
import signal
import sys


def main() -> None:
    gate = int(sys.argv[1])
    if not os.read(gate, 1):  # it that started us is gone
        sys.exit(1)
    os.close(gate)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
