"""No secret survives the masker in any of the forms it is written in, and what is none stays as it is."""

from __future__ import annotations

import json
import shlex
import string
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ullage.masking import MASK, Masker, is_secret_name

SNAKE = ("api_key", "admin_api_key", "hf_token", "ssl_keyfile_password", "client_secret", "aws_secret_access_key")
NAMES = (*SNAKE, *(name.upper() for name in SNAKE), "apiKey", "accessToken", "PGPASSWORD", "passphrase", "api_key_2")
FLAGS = tuple(f"--{name.replace('_', '-')}" for name in SNAKE)
BARE = string.ascii_letters + string.digits + "!#$%*+-./:<=>?@^_`|~,;&()[]{}"

Form = Callable[[str, str], str]
AS_WORDS: dict[str, Form] = {
    "environment": lambda name, secret: f"{name}={secret} python -m sglang.launch_server",
    "assigned": lambda name, secret: f"started with {name}={secret} on port 30000",
    "spaced": lambda name, secret: f"{name} = {secret} # set",
    "yaml": lambda name, secret: f"env:\n  {name}: {secret}\n  PORT: 30000",
    "header": lambda name, secret: f"> X-{name.replace('_', '-')}: {secret}\n> Accept: */*",
    "bearer": lambda _, secret: f"refused header 'Bearer {secret}'",
    "authorization": lambda _, secret: f"Authorization: Token {secret}",
    "cookie": lambda _, secret: f"cookie: session=1; sid={secret}",
}
AS_QUOTED: dict[str, Form] = {
    "json": lambda name, secret: json.dumps({"a": 1, name: secret, "port": 30000}),
    "json in json": lambda name, secret: json.dumps({"body": json.dumps({name: secret, "port": 30000})}),
    "json in json in json": lambda name, secret: json.dumps(json.dumps(json.dumps({name: secret}))),
    "words in json": lambda name, secret: json.dumps(["serve", f"--{name}", secret, "--port", "30000"]),
    "list in json": lambda name, secret: json.dumps({name: [secret, secret], "port": 30000}),
    "repr": lambda name, secret: repr({"a": None, name: secret, "port": 30000}),
    "bytes": lambda name, secret: repr({name: secret.encode()}),
    "arguments": lambda name, secret: f"ServerArgs(model_path='/m', {name}={secret!r}, port=30000)",
    "wrapped": lambda name, secret: f"Settings({name}=SecretStr({secret!r}), port=30000)",
    "toml": lambda name, secret: f"{name} = {json.dumps(secret)}",
    "shell": lambda name, secret: f"export {name}={shlex.quote(secret)}; serve",
    "flag": lambda name, secret: f"serve --{name.replace('_', '-')} {shlex.quote(secret)} --port 30000",
    "flag=": lambda name, secret: f"serve --{name.replace('_', '-')}={shlex.quote(secret)} --port 30000",
}
AS_URL: dict[str, Form] = {
    "password": lambda _, secret: f"cannot reach http://operator:{quote(secret, safe='')}@10.0.0.1:30000/metrics",
    "user": lambda _, secret: f"http://{quote(secret, safe='')}@10.0.0.1:30000",
    "raw password": lambda _, secret: f"http://operator:{secret.replace('/', '')}@10.0.0.1:30000",
    "query": lambda name, secret: f"GET /metrics?a=1&{name}={quote(secret, safe='')}&b=2 HTTP/1.1",
    "key": lambda _, secret: f"GET /metrics?key={quote(secret, safe='')}&b=2 HTTP/1.1",
}


def bare() -> st.SearchStrategy[str]:
    """A secret that needs no quotes; it begins with a letter, as nobody can tell `=,` from an empty value."""
    letters = st.sampled_from(string.ascii_letters)
    return st.builds(str.__add__, letters, st.text(BARE, min_size=7, max_size=40))


def quoted() -> st.SearchStrategy[str]:
    return st.builds(str.__add__, bare(), st.text(BARE + " '\"\\éß", max_size=20))


def leaks(secret: str, shown: str, form: str) -> list[str]:
    """Every five letters of the secret that are shown, and stand nowhere in the form without it."""
    spellings = (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], quote(secret, safe=""))
    pieces = {text[at : at + 5] for text in spellings for at in range(len(text) - 4)}
    return [piece for piece in pieces if piece in shown and piece not in form]


def assert_hidden(form: Form, name: str, secret: str, masker: Masker | None = None) -> None:
    text = form(name, secret)
    shown = (masker or Masker()).text(text)
    assert not leaks(secret, shown, form(name, "")), (text, shown)


FEW = settings(max_examples=40)


@pytest.mark.parametrize("form", AS_WORDS)
@FEW
@given(st.sampled_from(NAMES), bare())
def test_a_bare_secret_is_hidden(form: str, name: str, secret: str) -> None:
    assert_hidden(AS_WORDS[form], name, secret)


@pytest.mark.parametrize("form", AS_QUOTED)
@FEW
@given(st.sampled_from(NAMES), quoted())
def test_a_quoted_secret_is_hidden(form: str, name: str, secret: str) -> None:
    assert_hidden(AS_QUOTED[form], name, secret)


@pytest.mark.parametrize("form", AS_QUOTED)
@FEW
@given(st.sampled_from(NAMES), bare(), st.integers(1, 40))
def test_a_text_that_is_cut_within_a_secret_hides_what_is_left(form: str, name: str, secret: str, left: int) -> None:
    whole = AS_QUOTED[form](name, secret)
    cut = whole[: whole.index(secret[:6]) + left] if secret[:6] in whole else whole
    shown = Masker().text(cut)
    assert not leaks(secret, shown, AS_QUOTED[form](name, "")), (cut, shown)


@pytest.mark.parametrize("form", AS_URL)
@FEW
@given(st.sampled_from(SNAKE), bare())
def test_a_secret_in_a_url_is_hidden(form: str, name: str, secret: str) -> None:
    assert_hidden(AS_URL[form], name, secret)


@pytest.mark.parametrize("form", [*AS_WORDS, *AS_QUOTED, *AS_URL])
@FEW
@given(st.sampled_from(NAMES), st.from_regex(r"[1-9][0-9]{7,11}", fullmatch=True))
def test_a_key_of_digits_is_hidden(form: str, name: str, secret: str) -> None:
    if not name.lower().endswith("token"):  # a number under "token" is a count
        assert_hidden((AS_WORDS | AS_QUOTED | AS_URL)[form], name, secret)


@FEW
@given(quoted(), st.sampled_from(["{}", "no {} here", "a={}", '"{}"']))
def test_the_key_in_use_is_hidden_wherever_it_is_echoed(key: str, place: str) -> None:
    masker = Masker([key])
    for spelling in (key, json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1], quote(key, safe="")):
        assert not leaks(key, masker.text(place.format(spelling)), place)


@FEW
@given(st.sampled_from(FLAGS), quoted())
def test_the_words_of_a_command_line_hide_it(flag: str, secret: str) -> None:
    name = flag.lstrip("-").replace("-", "_").upper()
    commands = (
        ["serve", flag, secret, "--port", "30000"],
        ["serve", f"{flag}={secret}", "--port", "30000"],
        ["env", f"{name}={secret}", "serve", "--port", "30000"],
        ["serve", "--header", f"Authorization: Token {secret}", "--port", "30000"],
    )
    for words in commands:
        masked = Masker().words(words)
        assert not leaks(secret, " ".join(masked), " ".join(words).replace(secret, ""))
        assert masked[-2:] == ("--port", "30000")


def test_several_keys_after_one_flag_are_hidden() -> None:
    words = ("vllm", "serve", "--api-key", "one-of-two", "two-of-two", "-tp", "2")
    assert Masker().words(words) == ("vllm", "serve", "--api-key", MASK, MASK, "-tp", "2")


@FEW
@given(st.sampled_from(NAMES), quoted())
def test_a_document_hides_it(name: str, secret: str) -> None:
    documents = (
        {name: secret},
        {name: [secret, secret]},
        {name: {"value": secret, "more": [secret]}},
        [{"args": [f"--{name}", secret]}],
        {"env": [{"name": name, "value": secret}]},
        {"key": secret},
    )
    for data in documents:
        if not (name.lower().endswith("token") and isinstance(data, dict) and isinstance(data.get(name), dict)):
            assert not leaks(secret, json.dumps(Masker().document(data)), json.dumps(data).replace(secret, ""))


def test_a_number_in_a_document_is_hidden_where_it_can_only_be_a_secret() -> None:
    data = {"api_key": 12345678, "password": 87654321, "last_token": 64, "enable_auth": True}
    assert Masker().document(data) == {"api_key": MASK, "password": MASK, "last_token": 64, "enable_auth": True}


@FEW
@given(st.dictionaries(st.sampled_from(NAMES), quoted(), min_size=1))
def test_an_environment_hides_it(variables: dict[str, str]) -> None:
    assert set(Masker().environment(variables).values()) == {MASK}


@pytest.mark.parametrize(
    "token",
    [
        "hf_" + "aB3" * 11,
        "sk-proj-" + "aB3_" * 8,
        "ghp_" + "aB3x" * 9,
        "github_pat_" + "11ABCDE" * 5,
        "glpat-" + "aB3x" * 5,
        "nvapi-" + "aB3x" * 10,
        "xoxb-" + "1234567890-" * 2 + "aB3x" * 4,
        "AKIA" + "ABCD2345" * 2,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
    ],
)
@pytest.mark.parametrize("form", ["{}", "downloading with {}", "path/{}/x", '"{}"', "a={}&b=1", "({})"])
def test_a_well_known_shape_is_hidden_anywhere(token: str, form: str) -> None:
    assert token[6:] not in Masker().text(form.format(token))


@pytest.mark.parametrize(
    "text",
    [
        "max_total_num_tokens=135505, chunked_prefill_size=8192, max_running_requests=256",
        "Prefill batch. #new-seq: 1, #new-token: 64, #cached-token: 0, token usage: 0.03, #running-req: 0",
        "Decode batch. #running-req: 3, #token: 2765, token usage: 0.02, gen throughput (token/s): 15.02",
        "#full token: 768320, full token usage: 0.83, #swa token: 12, swa token usage: 0.01",
        "tokenizer_path='/m/x', tokenizer_mode='auto', skip_tokenizer_init=False",
        "num_reserved_decode_tokens=512, api_key=None, admin_api_key=None, ssl_keyfile=None",
        '{"api_key": null, "hf_token": "", "port": 30000}',
        '{\\"api_key\\": null, \\"password\\": \\"\\", \\"port\\": 30000}',
        "--max-total-tokens 4096 --tokenizer-path /m/x --hf-overrides {} --hf-chat-template-name default",
        "key: value",
        "KeyError: 'model'",
        "model_path='hf-internal-testing/tiny-random-llama', served_model_name='sk-learn-like-model'",
        "/models/hf_quantized_models/pk_columns_of_2024/sk_1234567890_x",
        "http://127.0.0.1:30000/v1/models?limit=5",
        "KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_token_ratio: 0.0980 -> 0.8353",
        "[TP0] Load weight end. type=Qwen3ForCausalLM, avail mem=52.27 GB, mem usage=41.43 GB.",
        "enable_auth=True, token=5&limit=3",
    ],
)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert Masker().text(text) == text


@pytest.mark.parametrize(
    "command",
    [
        "python -m sglang.launch_server --model-path hf-internal-testing/tiny --max-total-tokens 4096 --port 30000",
        "sglang serve --tokenizer-path /m/x --hf-overrides {} --enable-metrics --num-reserved-decode-tokens 512",
        "env -u HF_TOKEN CUDA_VISIBLE_DEVICES=0,1 python -m sglang_router.launch_router --prefill http://a:1 8998",
    ],
)
def test_a_command_line_without_secrets_stays_as_it_is(command: str) -> None:
    assert Masker().words(command.split()) == tuple(command.split())


@FEW
@given(st.sampled_from([*AS_WORDS, *AS_QUOTED, *AS_URL]), st.sampled_from(NAMES), quoted())
def test_masking_again_changes_nothing(form: str, name: str, secret: str) -> None:
    masker = Masker()
    once = masker.text((AS_WORDS | AS_QUOTED | AS_URL)[form](name, secret))
    assert masker.text(once) == once


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_guards_a_secret(name: str) -> None:
    assert is_secret_name(name)
    assert is_secret_name(f"--{name}")


@pytest.mark.parametrize("name", ["max_tokens", "tokenizer_path", "port", "keyboard", "monkey", "keys_per_token_s", ""])
def test_a_name_that_guards_none(name: str) -> None:
    assert not is_secret_name(name)
