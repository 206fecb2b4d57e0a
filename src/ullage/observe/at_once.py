"""Several calls at once, in threads. (concurrent.futures brings logging with it, which costs more than a request.)"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def at_once(call: Callable[[Job], Result], jobs: Sequence[Job], most: int) -> list[Result]:
    """The results in the order of the jobs, which begin in that order, at most `most` at a time. What the first failed
    call raised is raised when all have ended.
    """
    waiting = iter(enumerate(jobs))
    results: dict[int, Result] = {}
    failures: dict[int, BaseException] = {}

    def work() -> None:
        for place, job in waiting:  # a step of an iterator over a sequence is atomic
            do(place, job)

    def do(place: int, job: Job) -> None:
        try:
            results[place] = call(job)
        except BaseException as error:  # raised below, by the caller's thread
            failures[place] = error

    threads = [Thread(target=work, daemon=True) for _ in range(min(most, len(jobs)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[min(failures)]
    return [results[place] for place in range(len(jobs))]
