"""Tokenizers behind one small interface: a byte tokenizer that needs no file, and adapters for the usual ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import tokenizers

from llm_envs import validate
from llm_envs.error import OptionError

_EOS_NAMES = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "</s>", "<eos>", "<|eos|>", "[EOS]")
_ASKED, _WRITTEN = {"role": "user", "content": "?"}, "[what the assistant wrote]"
_SYSTEM = {"role": "system", "content": ""}
_PAD_NAMES = ("<pad>", "<|pad|>", "[PAD]", "<|padding|>")


@runtime_checkable
class Tokenizer(Protocol):
    """What the token level needs of a tokenizer.

    It may have `unused_token_ids`, too: ids below `vocab_size` that stand for no token. A policy must not write them.
    """

    vocab_size: int
    eos_token_id: int | None
    pad_token_id: int | None

    def encode(self, text: str) -> list[int]:
        """Ids of the text, no special tokens added."""

    def decode(self, ids: Sequence[int]) -> str:
        """Text of any ids in range, special tokens skipped."""

    def chat(
        self, messages: Sequence[Mapping[str, str]], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> list[int]:
        """Ids of a conversation in the tokenizer's chat template, up to where the assistant starts to write."""

    def chat_later(self, message: Mapping[str, str], last_token: int) -> list[int]:
        """Ids that follow when the assistant has written `last_token` and `message` comes, up to its next turn."""


def _encodable(text: str) -> str:
    """The text with question marks for lone surrogates, which no tokenizer in Rust takes."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


class _Immutable:
    """A deep copy of a tokenizer is the tokenizer."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self


class ByteTokenizer(_Immutable):
    """UTF-8 bytes as ids 0 to 255, then the padding and the end-of-sequence token.

    Example:
        >>> tokenizer = ByteTokenizer()
        >>> tokenizer.encode("né"), tokenizer.decode([110, 255, 257])
        ([110, 195, 169], 'n�')
    """

    vocab_size = 258
    pad_token_id: int | None = 256
    eos_token_id: int | None = 257

    def encode(self, text: str) -> list[int]:
        """The bytes of the text; lone surrogates, which have none, become question marks."""
        return list(text.encode("utf-8", errors="replace"))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the bytes; invalid sequences become U+FFFD, special tokens are skipped."""
        return bytes(int(i) for i in ids if i < 256).decode("utf-8", errors="replace")

    def chat(
        self, messages: Sequence[Mapping[str, str]], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> list[int]:
        """Bytes have no chat template."""
        raise OptionError("message_format='chat' needs a tokenizer with a chat template; ByteTokenizer has none")

    def chat_later(self, message: Mapping[str, str], last_token: int) -> list[int]:
        """Bytes have no chat template."""
        return self.chat([message])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByteTokenizer)

    def __hash__(self) -> int:
        return hash(ByteTokenizer)

    def __repr__(self) -> str:
        return "ByteTokenizer()"


class FastTokenizer(_Immutable):
    """A `tokenizers.Tokenizer`, which knows neither its end-of-sequence nor its chat template.

    Args:
        tokenizer: the tokenizer.
        eos_token: the end-of-sequence token; None looks for the usual names.
        pad_token: the padding token; None looks for the usual names and falls back to the end-of-sequence token.
    """

    def __init__(
        self, tokenizer: tokenizers.Tokenizer, eos_token: str | None = None, pad_token: str | None = None
    ) -> None:
        if tokenizer.padding is not None or tokenizer.truncation is not None:
            # Both would change what `encode` returns; the caller's object is left as it is.
            tokenizer = tokenizers.Tokenizer.from_str(tokenizer.to_str())
            tokenizer.no_padding()
            tokenizer.no_truncation()
        self.tokenizer = tokenizer
        used = set(tokenizer.get_vocab(with_added_tokens=True).values())
        self.vocab_size = _vocab_size(used)
        self.unused_token_ids = frozenset(range(self.vocab_size)) - used
        self.eos_token_id = self._special(eos_token, _EOS_NAMES)
        pad = self._special(pad_token, _PAD_NAMES)
        self.pad_token_id = self.eos_token_id if pad is None else pad

    def _special(self, name: str | None, usual: Sequence[str]) -> int | None:
        if name is not None:
            token = self.tokenizer.token_to_id(name)
            if token is None:
                raise OptionError(f"the tokenizer has no token {name!r}")
            return token
        return next((token for token in map(self.tokenizer.token_to_id, usual) if token is not None), None)

    def encode(self, text: str) -> list[int]:
        """Ids of the text, no special tokens added."""
        return self.tokenizer.encode(_encodable(text), add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids, special tokens skipped."""
        return self.tokenizer.decode([int(i) for i in ids], skip_special_tokens=True)

    def chat(
        self, messages: Sequence[Mapping[str, str]], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> list[int]:
        """A bare tokenizer.json has no chat template."""
        raise OptionError("message_format='chat' needs a Hugging Face tokenizer with a chat template")

    def chat_later(self, message: Mapping[str, str], last_token: int) -> list[int]:
        """A bare tokenizer.json has no chat template."""
        return self.chat([message])


class HuggingFaceTokenizer(_Immutable):
    """A tokenizer object of `transformers`, fast or slow."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        used = set(tokenizer.get_vocab().values())
        self.vocab_size = max(len(tokenizer), _vocab_size(used))
        # Of two tokens that are written alike the vocabulary names one only.
        maybe = frozenset(range(self.vocab_size)) - used
        self.unused_token_ids = frozenset(token for token in maybe if _has_no_token(tokenizer, token))
        self.eos_token_id: int | None = tokenizer.eos_token_id
        pad = tokenizer.pad_token_id
        self.pad_token_id: int | None = self.eos_token_id if pad is None else pad

    def encode(self, text: str) -> list[int]:
        """Ids of the text, no special tokens added."""
        return list(self.tokenizer.encode(_encodable(text), add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        """Text of the ids, special tokens skipped, spaces left as they are."""
        return self.tokenizer.decode(
            [int(i) for i in ids], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )

    def chat(
        self, messages: Sequence[Mapping[str, str]], tools: Sequence[Mapping[str, Any]] | None = None
    ) -> list[int]:
        """Ids of the conversation in the tokenizer's chat template, with the generation prompt."""
        return self.encode(self._render(messages, tools))

    def chat_later(self, message: Mapping[str, str], last_token: int) -> list[int]:
        """What the template puts between an assistant's message and the next, the message of the environment in it.

        The conversation before it is never rendered again: templates may change it (drop earlier thinking, say), and
        the tokens that the policy saw and wrote must stay as they are.
        """
        turns = [_ASKED, {"role": "assistant", "content": _WRITTEN}, message]
        try:
            rendered = self._render(turns, None)
        except OptionError as error:
            try:  # some templates demand a system message
                rendered = self._render([_SYSTEM, *turns], None)
            except OptionError:
                raise error from None
        before, found, later = rendered.partition(_WRITTEN)
        if not found:
            raise OptionError("the chat template changes what the assistant wrote, so a conversation cannot go on")
        return self.encode(later.removeprefix(self.tokenizer.decode([last_token])))

    def _render(self, messages: Sequence[Mapping[str, str]], tools: Sequence[Mapping[str, Any]] | None) -> str:
        if not getattr(self.tokenizer, "chat_template", None):
            raise OptionError("message_format='chat' needs a tokenizer with a chat template; this one has none")
        conversation = [
            {key: _encodable(value) if isinstance(value, str) else value for key, value in message.items()}
            for message in messages
        ]
        try:
            return self.tokenizer.apply_chat_template(
                conversation, tools=tools, add_generation_prompt=True, tokenize=False
            )
        except Exception as error:  # a template may do, and demand, anything
            roles = ", ".join(str(message.get("role")) for message in messages)
            raise OptionError(f"the chat template cannot render a conversation of ({roles}): {error}") from error


def _vocab_size(used: Collection[int]) -> int:
    """Ids may have gaps, so the number of tokens does not say how large an id can be."""
    return 1 + max(used, default=-1)


def _has_no_token(tokenizer: Any, token_id: int) -> bool:
    """Whether a `transformers` tokenizer has nothing at an id, or the unknown token for want of another."""
    try:
        token = tokenizer.convert_ids_to_tokens(token_id)
    except (IndexError, KeyError, ValueError):
        return True
    return token is None or (token == tokenizer.unk_token and token_id != tokenizer.unk_token_id)


def unused_token_ids(tokenizer: Tokenizer) -> frozenset[int]:
    """Ids below `vocab_size` that stand for no token; none for a tokenizer that does not say."""
    unused = getattr(tokenizer, "unused_token_ids", ())
    return frozenset(validate.ids("unused_token_ids of the tokenizer", unused, tokenizer.vocab_size))


def as_tokenizer(tokenizer: Any = None) -> Tokenizer:
    """Accept the usual kinds of tokenizer.

    Args:
        tokenizer: None or `"byte"` for `ByteTokenizer`; an object with this module's interface; a
            `tokenizers.Tokenizer`; a `transformers` tokenizer; a `tokenizer.json` file or a folder holding one; or a
            Hugging Face model name. A folder with a `tokenizer_config.json`, and a name, are loaded by `transformers`.
    """
    if tokenizer is None or (isinstance(tokenizer, str) and tokenizer == "byte"):
        return ByteTokenizer()
    if isinstance(tokenizer, (ByteTokenizer, FastTokenizer, HuggingFaceTokenizer)):
        return tokenizer
    if isinstance(tokenizer, tokenizers.Tokenizer):
        return FastTokenizer(tokenizer)
    if isinstance(tokenizer, (str, Path)) and str(tokenizer).strip():
        return _load(tokenizer)
    if hasattr(tokenizer, "apply_chat_template") and hasattr(tokenizer, "convert_ids_to_tokens"):
        return HuggingFaceTokenizer(tokenizer)
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    raise OptionError(
        "tokenizer must be None, 'byte', a folder, a file, a model name, or a tokenizers or transformers tokenizer, "
        f"got {tokenizer!r:.80}"
    )


def _load(location: str | Path) -> Tokenizer:
    path = Path(location)
    if path.is_file():
        return _from_file(path)
    if path.is_dir() and not (path / "tokenizer_config.json").exists():
        file = path / "tokenizer.json"
        if not file.exists():
            raise OptionError(f"the folder {str(path)!r} holds neither tokenizer_config.json nor tokenizer.json")
        return _from_file(file)
    from transformers import AutoTokenizer  # imports torch, so only when it is needed

    try:
        return HuggingFaceTokenizer(AutoTokenizer.from_pretrained(str(location)))
    except (OSError, ValueError) as error:
        raise OptionError(f"cannot load the tokenizer {str(location)!r}: {error}") from error


def _from_file(path: Path) -> Tokenizer:
    try:
        return FastTokenizer(tokenizers.Tokenizer.from_file(str(path)))
    except OptionError:
        raise
    except Exception as error:  # the library raises nothing more specific
        raise OptionError(f"cannot read the tokenizer {str(path)!r}: {error}") from error
