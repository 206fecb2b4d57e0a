"""The errors a user can meet.

UllageError
  UsageError        the words of the command are off            exit 2
  UnreachableError  no target could be read                     exit 3
"""

from __future__ import annotations


class UllageError(Exception):
    """One line of what went wrong, and one of what to do next."""

    exit_code = 1

    def __init__(self, message: str, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message} ({self.advice})" if self.advice else self.message


class UsageError(UllageError):
    exit_code = 2


class UnreachableError(UllageError):
    exit_code = 3
