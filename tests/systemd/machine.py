"""A machine for tests: a real systemd as PID 1 in namespaces of its own, on a throw-away copy of this host's files.

    with Machine(tmp_path / "machine") as machine:
        machine.unit("sglang.service", "[Service]\\nExecStart=/bin/sleep 1000\\n")
        machine.systemctl("start", "sglang.service")
        machine.run("journalctl", "--unit=sglang.service").stdout
        machine.user("op")                      # an ordinary user whose user manager runs
        machine.unit("x.service", "...", user="op")
        machine.systemctl("start", "x.service", user="op")
        machine.python("print(1)", user="op")   # this Python, with this checkout; also machine.run(PYTHON, "-m", ...)
        machine.reboot()                        # same files, same journal, same machine-id

Needs root, systemd, unshare, overlay and cgroup2; `usable()` says what is missing. Boots in about half a second.

* All of the host's files are there; what is written inside is in memory and gone at the end. /tmp and /run are fresh at
  each boot. This Python, its packages and this checkout are there under their own paths, and can only be read. More
  `directories` can be given; "FROM=TO" is one whose writes are kept ("/x/journal=/var/log/journal").
* The network is its own, with a loopback and nothing else, so ports clash with nobody's. `own_network=False` shares it.
* `pid` is the first process as the host sees it: `nsenter --target PID --all` is how `run` gets in. What `run`
  starts belongs to no unit.
* Limits: MemoryMax= and CPUQuota= cannot be enforced where the controllers are the host's, and the clock cannot be set.
* Several can run at once. Nothing is mounted where the host sees it; cgroups are removed at the end. When the process
  that made it dies, however it dies, the machine goes too.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from uuid import uuid4

ROOT = Path(__file__).parents[2]
PYTHON = sys.executable
UP_S, DOWN_S = 60.0, 30.0
_SCRIPT = Path(__file__).with_name("boot.sh")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def usable() -> str:
    """ "" where a machine can be made, else why it cannot."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "namespaces with a systemd in them need root on Linux"
    if not Path("/lib/systemd/systemd").exists():
        return "no systemd is installed"
    if _cgroups() is None:
        return "cgroup2 is not mounted, or cannot be written"
    words = ["unshare", "--pid", "--mount", "--uts", "--ipc", "--cgroup", "--net", "--fork", "true"]
    try:
        tried = subprocess.run(words, capture_output=True, text=True, timeout=UP_S)
    except OSError as error:
        return f"unshare cannot be run: {error.strerror}"
    return f"namespaces are not permitted: {tried.stderr.strip()}" if tried.returncode else ""


def _cgroups() -> Path | None:
    """Where cgroup2 is mounted, alone or beside the older hierarchies."""
    found = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
    return next((path for path in found if (path / "cgroup.procs").exists() and os.access(path, os.W_OK)), None)


class Machine:
    def __init__(
        self,
        folder: Path,
        *,
        directories: Sequence[str] = (),
        own_network: bool = True,
        target: str = "basic.target",
    ) -> None:
        """`folder` is made; it stays empty for the host. `directories`: see above."""
        folder.mkdir(parents=True, exist_ok=True)
        cgroups = _cgroups()
        assert cgroups, usable()
        self._cgroup = cgroups / f"machine-{os.getpid()}-{uuid4().hex[:8]}"
        python = [sys.prefix, sys.base_prefix, str(ROOT)]
        shown = list(dict.fromkeys([*python, *directories]))
        network = "yes" if own_network else "no"
        self._words = ["sh", str(_SCRIPT), str(folder), str(self._cgroup), network, target, *shown]
        self.pid = 0

    def __enter__(self) -> Machine:
        self._cgroup.mkdir()
        holder = ["unshare", "--mount", "--propagation", "private", *self._words]
        self._holder = subprocess.Popen(
            holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            assert self._answer() == "ready", "the files of the machine could not be laid out"
            self.boot()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def boot(self) -> None:
        """Returns when systemd has done its starting."""
        outer = int(self._order("boot"))
        deadline = time.monotonic() + UP_S
        state = ""
        while state not in ("running", "degraded"):
            assert time.monotonic() < deadline, f"systemd does not come up: {state or 'no answer'}"
            time.sleep(0.03)
            self.pid = _first_child(outer)
            if self.pid and Path(f"/proc/{self.pid}/comm").read_text() == "systemd\n":
                state = self.run("systemctl", "is-system-running", check=False).stdout.strip()

    def off(self) -> None:
        """As by `poweroff`: services are stopped, the journal is closed."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGRTMIN + 4)
        deadline = time.monotonic() + DOWN_S
        while Path(f"/proc/{self.pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.03)
        self._order("kill")

    def cut_and_boot(self) -> None:
        """As when the power fails, and comes back."""
        self._order("kill")
        self.boot()

    def reboot(self) -> None:
        self.off()
        self.boot()

    def run(
        self, *words: str, user: str = "", check: bool = True, input: str | None = None, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """A command inside, with a bare environment. As a user: with what systemd's tools need to reach its manager."""
        done = subprocess.run(
            self.words(*words, user=user), capture_output=True, text=True, input=input, timeout=timeout
        )
        assert not check or done.returncode == 0, f"{shlex.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def words(self, *words: str, user: str = "") -> list[str]:
        """The command line, for the host, that runs a command inside."""
        enter = ["nsenter", "--target", str(self.pid), "--all"]
        environment = ["env", "-i", f"PATH={_PATH}", "LANG=C.UTF-8"]
        if not user:
            return [*enter, *environment, "HOME=/root", "USER=root", *words]
        uid = self.uid(user)
        own = [f"HOME=/home/{user}", f"USER={user}", f"XDG_RUNTIME_DIR=/run/user/{uid}"]
        become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--init-groups"]
        return [*enter, *become, *environment, *own, *words]

    def python(self, code: str, *words: str, user: str = "", timeout: float = 60) -> str:
        """What this code prints, run inside by this Python, with this checkout on its path."""
        return self.run(PYTHON, "-c", code, *words, user=user, timeout=timeout).stdout

    def systemctl(self, *words: str, user: str = "") -> str:
        return self.run("systemctl", *(["--user"] if user else []), *words, user=user).stdout

    def show(self, unit: str, name: str, user: str = "") -> str:
        """One property of a unit."""
        return self.systemctl("show", "--value", f"--property={name}", unit, user=user).strip()

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """A file inside, its folders made."""
        script = 'mkdir -p "$(dirname "$0")" && cat > "$0" && chmod "$1" "$0"'
        self.run("sh", "-c", script, path, f"{mode:o}", input=text)

    def unit(self, name: str, text: str, *, user: str = "") -> str:
        """Writes the file of a unit, and has the manager read it; the path. "x.service.d/y.conf" is a drop-in."""
        folder = f"/home/{user}/.config/systemd/user" if user else "/etc/systemd/system"
        self.write(f"{folder}/{name}", text)
        if user:
            self.run("chown", "-R", f"{user}:", f"/home/{user}")
        self.systemctl("daemon-reload", user=user)
        return f"{folder}/{name}"

    def user(self, name: str) -> int:
        """Makes an ordinary user, in no other group, with a user manager that runs; its uid."""
        self.run("useradd", "--create-home", "--shell=/bin/sh", name)
        self.log_in(name)
        return self.uid(name)

    def log_in(self, user: str) -> None:
        """Starts a user's manager, which a reboot ends."""
        self.systemctl("start", f"user@{self.uid(user)}.service")

    def uid(self, user: str) -> int:
        return int(self.run("id", "-u", user).stdout)

    def until(self, *words: str, user: str = "", seconds: float = 60) -> None:
        """Waits until a command succeeds."""
        deadline = time.monotonic() + seconds
        while (done := self.run(*words, user=user, check=False)).returncode:
            assert time.monotonic() < deadline, f"{shlex.join(words)}\n{done.stdout}{done.stderr}"
            time.sleep(0.05)

    def _order(self, word: str) -> str:
        assert self._holder.stdin
        self._holder.stdin.write(f"{word}\n")
        self._holder.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._holder.stdout
        return self._holder.stdout.readline().strip()

    def _close(self) -> None:
        for pipe in (self._holder.stdin, self._holder.stdout):
            if pipe:
                with suppress(OSError):
                    pipe.close()
        self._holder.wait(DOWN_S)
        deadline = time.monotonic() + DOWN_S
        while self._cgroup.exists():
            with suppress(OSError):
                for path in sorted(self._cgroup.rglob("*/"), reverse=True):
                    path.rmdir()
                self._cgroup.rmdir()
            assert time.monotonic() < deadline, f"still in use: {self._cgroup}"


def _first_child(pid: int) -> int:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(words[0]) if words else 0
    return 0
