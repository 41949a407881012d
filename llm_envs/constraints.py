"""Constraints on what a policy may write in a turn: regular expressions, JSON schemas, and one's own.

Legend: V tokens in the vocabulary.

    gym.make("llm_envs/Arithmetic-v0", constraint="regex:-?[0-9]+")
    gym.make("llm_envs/Extraction-v0", constraint='json_schema:{"type": "object"}')

The two are compiled by llguidance (`pip install llm-envs[constraints]`) and hold for a whole turn, stop token left out.
A constraint says nothing about budgets: one that is cut off by `max_new_tokens` is not satisfied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from llm_envs.error import OptionError, unknown
from llm_envs.tokenizer import ByteTokenizer, FastTokenizer, HuggingFaceTokenizer, Tokenizer

NextTokens = Callable[[np.ndarray], np.ndarray]
"""(ids written in this turn) -> bool (V,): what may come next; at a stop token, whether the turn may end here."""


@runtime_checkable
class Constraint(Protocol):
    """What a turn must look like.

    Example:
        >>> class Digits:
        ...     def start(self, tokenizer, stop_token_ids):
        ...         digits = [*tokenizer.encode("0123456789"), *stop_token_ids]
        ...         mask = np.isin(np.arange(tokenizer.vocab_size), digits)
        ...         return lambda written: mask
        >>> isinstance(Digits(), Constraint)
        True
    """

    def start(self, tokenizer: Tokenizer, stop_token_ids: Sequence[int]) -> NextTokens:
        """A function of the written ids; asked once per row, so it may remember how far it has read."""


def as_constraint(constraint: str | Constraint | None) -> Constraint | None:
    """A constraint from `"regex:..."` or `"json_schema:..."`; an object of one's own as it is."""
    if constraint is None:
        return None
    if isinstance(constraint, str):
        kind, colon, source = constraint.partition(":")
        if kind not in _GRAMMARS or not colon:
            raise OptionError(unknown("kind of constraint", kind, [f"{name}:..." for name in _GRAMMARS]))
        return Grammar(kind, source)
    if not isinstance(constraint, Constraint):
        raise OptionError(f"constraint must be a string or an object with the method start, got {constraint!r}")
    return constraint


_GRAMMARS = {"regex": "grammar_from_regex", "json_schema": "grammar_from_json_schema"}


class Grammar:
    """A regular expression or a JSON schema that the whole turn must match.

    llguidance's syntax: that of Rust's `regex` without look-around; JSON Schema with its own options under
    `"x-guidance"`, such as `{"whitespace_flexible": false}`.

    Args:
        kind: `regex` or `json_schema`.
        source: the expression, or the schema as JSON.
    """

    def __init__(self, kind: str, source: str) -> None:
        self.kind, self.source = kind, source
        self._compiled: tuple[Tokenizer, tuple[int, ...], Any, str] | None = None

    def start(self, tokenizer: Tokenizer, stop_token_ids: Sequence[int]) -> NextTokens:
        """A matcher of its own; the vocabulary and the grammar are read once."""
        if self._compiled is None or self._compiled[0] is not tokenizer or self._compiled[1] != tuple(stop_token_ids):
            self._compiled = (tokenizer, tuple(stop_token_ids), *self._compile(tokenizer, stop_token_ids))
        return _Matcher(*self._compiled[2:], list(stop_token_ids), tokenizer.vocab_size)

    def _compile(self, tokenizer: Tokenizer, stop_token_ids: Sequence[int]) -> tuple[Any, str]:
        try:
            import llguidance
        except ImportError as error:
            raise OptionError(
                f"a constraint {self.kind!r} needs the package llguidance: pip install llm-envs[constraints]"
            ) from error
        vocabulary = llguidance.LLTokenizer(
            _bytes_of_tokens(tokenizer), n_vocab=tokenizer.vocab_size, eos_token=list(stop_token_ids)
        )
        try:
            grammar = getattr(llguidance.LLMatcher, _GRAMMARS[self.kind])(self.source)
            problem = llguidance.LLMatcher.validate_grammar(grammar, vocabulary)
        except (TypeError, ValueError) as error:  # no UTF-8, for example
            problem = str(error)
        if problem:
            raise OptionError(f"the constraint {self.kind}:{self.source!r:.200} cannot be compiled: {problem}")
        return vocabulary, grammar

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_compiled": None}  # llguidance's objects cannot be pickled

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grammar) and (self.kind, self.source) == (other.kind, other.source)

    def __hash__(self) -> int:
        return hash((self.kind, self.source))

    def __repr__(self) -> str:
        return f"Grammar({self.kind!r}, {self.source!r})"


class _Matcher:
    """Reads only what is new: it goes back to the last token in common and on from there."""

    def __init__(self, vocabulary: Any, grammar: str, stop_token_ids: list[int], vocab_size: int) -> None:
        from llguidance import LLMatcher

        self._matcher = LLMatcher(vocabulary, grammar)
        self._stop_token_ids, self._vocab_size = stop_token_ids, vocab_size
        self._read = np.empty(0, dtype=np.int64)

    def __call__(self, written: np.ndarray) -> np.ndarray:
        shorter = min(len(self._read), len(written))
        differs = np.flatnonzero(self._read[:shorter] != written[:shorter])
        common = int(differs[0]) if len(differs) else shorter
        if common < len(self._read):
            self._matcher.rollback(len(self._read) - common)
        common += self._matcher.try_consume_tokens(written[common:].tolist())
        self._read = np.array(written[:common])
        if common < len(written):
            return np.zeros(self._vocab_size, dtype=np.bool_)  # it has left the grammar
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        allowed = np.unpackbits(bits, count=self._vocab_size, bitorder="little").astype(np.bool_)
        allowed[self._stop_token_ids] = self._matcher.is_accepting()
        return allowed


class _ByteVocabulary:
    """`ByteTokenizer` as llguidance wants to see it."""

    bos_token_id = None
    tokens = [bytes([byte]) for byte in range(256)] + [b"", b""]

    def __init__(self, tokenizer: ByteTokenizer) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id = tokenizer.eos_token_id
        self.special_token_ids = [tokenizer.pad_token_id, tokenizer.eos_token_id]

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text) if isinstance(text, bytes) else self._tokenizer.encode(text)


def _bytes_of_tokens(tokenizer: Tokenizer) -> Any:
    """What `LLTokenizer` reads the bytes of each token from."""
    from llguidance import TokenizerWrapper

    if isinstance(tokenizer, ByteTokenizer):
        return TokenizerWrapper(_ByteVocabulary(tokenizer))
    if isinstance(tokenizer, FastTokenizer):
        return tokenizer.tokenizer.to_str()
    backend = (
        getattr(tokenizer.tokenizer, "backend_tokenizer", None) if isinstance(tokenizer, HuggingFaceTokenizer) else None
    )
    if backend is None:
        raise OptionError(
            "regex and json_schema constraints need the byte tokenizer, one of tokenizers or a fast one of "
            f"transformers, got {tokenizer!r}; give a Constraint object"
        )
    return FastTokenizer(backend).tokenizer.to_str()  # without padding and truncation
