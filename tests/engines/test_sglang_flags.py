"""A command line as it is typed: only its own words are its flags."""

from __future__ import annotations

import pytest

from ullage.engines.sglang.read import facts_of
from ullage.masking import Masker
from ullage.observe.files import argv_of

COMMAND = "python -m sglang.launch_server --model-path /m --context-length 8192"


@pytest.mark.parametrize(
    "text",
    [
        f"{COMMAND} && python other.py --context-length 5",
        f"{COMMAND} 2>&1 | tee x.log --context-length 7",
        f"{COMMAND}; echo --context-length 9",
        f"{COMMAND} # --context-length 10",
        f"{COMMAND} -- --context-length 5",
        f"cd /opt && {COMMAND} &",
        f"{COMMAND.replace('8192', '4096')} --context-length=8192",
        COMMAND.replace("--context-length 8192", "--context_length '8192'"),
        COMMAND.replace(" --context", " \\\n  --context"),
    ],
)
def test_the_words_of_another_command_are_no_flags_of_the_server(text: str) -> None:
    [facts] = facts_of(argv_of(text, Masker()))
    assert facts.args["context_length"].value == 8192
