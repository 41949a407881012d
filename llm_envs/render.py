"""Episodes as text, on the terminal, and as pictures.

* `"ansi"`: `render()` returns a str, the same on every machine: no colours, no escape sequences.
* `"human"`: prints what is new at `reset`, at the end of every turn and when `render()` is called; in colour, by rich,
  where the terminal has colours.
* `"rgb_array"`: `render()` returns uint8 (480, 640, 3), the last 40 lines of 100 characters, for video wrappers; drawn
  by Pillow, with ? for what is not Latin-1.

`gymnasium.make` takes `"ansi_list"` and `"rgb_array_list"`, too: by its own wrapper, `render()` then returns what was
rendered at `reset` and at every step since it was last called.

A policy may write anything: control characters, which could move the cursor or change the terminal, become symbols.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium.error import DependencyNotInstalled

from llm_envs.error import OptionError, unknown

RENDER_MODES = ("human", "ansi", "rgb_array")

_WIDTH, _HEIGHT = 640, 480
_COLUMNS, _LINES = 100, 40
_MARGIN = 20
_LINE_HEIGHT = 11
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_BACKGROUND, _FOREGROUND = (16, 18, 24), (220, 220, 220)
_COLOURS = {
    "system": (150, 150, 150),
    "user": (120, 190, 255),
    "assistant": (140, 230, 140),
    "tool": (240, 200, 110),
    "verdict": (230, 150, 230),
}


class Block(NamedTuple):
    """One message or the verdict."""

    role: str
    text: str


class Renderer:
    """Shows the blocks of an episode as the render mode says."""

    def __init__(self, mode: str | None, modes: Sequence[str] = RENDER_MODES) -> None:
        if mode is not None and mode not in modes:
            raise OptionError(unknown("render_mode", mode, modes))
        self._mode = mode
        self._shown: list[Block] = []

    def begin(self, blocks: Callable[[], list[Block]]) -> None:
        """A new episode; in the mode `human`, print its beginning."""
        self._shown = []
        self.go_on(blocks)

    def go_on(self, blocks: Callable[[], list[Block]]) -> None:
        """In the mode `human`, print what is new."""
        if self._mode == "human":
            self._print(blocks())

    def render(self, blocks: list[Block]) -> Any:
        """What `Env.render` returns."""
        if self._mode == "human":
            return self._print(blocks)
        if self._mode == "rgb_array":
            return as_image(blocks)
        return as_text(blocks) if self._mode == "ansi" else None

    def _print(self, blocks: list[Block]) -> None:
        for position, block in enumerate(blocks):
            shown = self._shown[position] if position < len(self._shown) else None
            if shown is None or shown.role != block.role or not block.text.startswith(shown.text):
                _print(f"{_heading(block)}{visible(block.text)}", block.role)
            elif shown.text != block.text:  # a turn of which the beginning is on the terminal
                _print(visible(block.text[len(shown.text) :]), block.role)
        self._shown = list(blocks)


def as_text(blocks: Sequence[Block]) -> str:
    """Blocks under headings, a blank line between them."""
    return "\n\n".join(_heading(block) + visible(block.text) for block in blocks)


def as_image(blocks: Sequence[Block]) -> np.ndarray:
    """The end of the text as a picture, uint8 (480, 640, 3); always this size, since videos need one."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise DependencyNotInstalled("render_mode='rgb_array' draws with Pillow: pip install pillow") from error
    lines = [
        (line[start : start + _COLUMNS], _COLOURS.get(block.role, _FOREGROUND))
        for block in blocks
        for line in f"{_heading(block)}{visible(block.text)}\n".expandtabs(4).split("\n")
        for start in range(0, max(len(line), 1), _COLUMNS)
    ]
    image = Image.new("RGB", (_WIDTH, _HEIGHT), _BACKGROUND)
    draw, font = ImageDraw.Draw(image), ImageFont.load_default_imagefont()
    for number, (line, colour) in enumerate(lines[-_LINES:]):
        drawn = line.encode("latin-1", "replace")
        draw.text((_MARGIN, _MARGIN + _LINE_HEIGHT * number), drawn, fill=colour, font=font)
    return np.array(image, dtype=np.uint8)


def visible(text: str) -> str:
    """The text with control characters as symbols (line ends and tabs stay) and lone surrogates replaced."""
    return _HIDDEN.sub(_symbol, text)


def _symbol(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == 0x7F:
        return "\u2421"
    return chr(0x2400 + code) if code < 0x20 else "\ufffd"


def _heading(block: Block) -> str:
    return f"[{block.role}]\n"


def _print(text: str, role: str) -> None:
    try:
        from rich.console import Console
        from rich.text import Text
    except ImportError:
        print(text, flush=True)
        return
    red, green, blue = _COLOURS.get(role, _FOREGROUND)
    Console(highlight=False, soft_wrap=True).print(Text(text, style=f"rgb({red},{green},{blue})"))
