"""A learned scorer: any `transformers` sequence-classification checkpoint, asked about (prompt, answer).

    RewardModel("some/reward-model")                     # a name or a folder
    RewardModel(model, tokenizer=tokenizer, device="cpu")

`example.hidden` is not read. With a chat template (needed where the prompt is chat messages) the prompt and the answer
are rendered as one conversation that ends with the answer; without one they are encoded as a pair of texts.

An answer cannot forge a turn of the conversation: a space is put into whatever reads like a special token in it. Lone
surrogates become "?".

Not covered: models that score every token, generative judges, `answer.files` and `answer.transcript`, custom code of a
checkpoint. Scores of one answer alone and inside a batch differ by rounding, about 1e-6 of them in float32. That a
policy finds what pleases the model and no person is the rule, not the exception: keep a gold verifier beside it.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verifiers.base import Answer, Example, Verdict, Verifier, VerifierError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

OUTPUTS = ("logit", "sigmoid")


class RewardModel(Verifier):
    """Score is the model's logit, or its sigmoid; thread-safe, one batch at a time; kinds passed, wrong, too_large.

    Components: `logit`, and `truncated` (1 if the input was cut).

    Args:
        model: name or folder of a checkpoint, or a model object.
        tokenizer: of a model object; a checkpoint brings its own.
        device: "auto" (CUDA where there is one), "cpu", "cuda", "cuda:1", ...
        batch_size: answers scored at one time, sorted by length.
        dtype: of the weights of a checkpoint: "auto" (as stored), "float32", "bfloat16", ...
        max_length: longest input, tokens; None for what model and tokenizer state.
        too_long: "left" cuts a longer input on the left and keeps the end of the answer; a number is the score of such
            an answer, which is not asked about. Choose it below all honest scores: 0 may be above them.
        output: "logit" or "sigmoid" of it.
        threshold: an answer passes if its score is above it; None for logit 0.
        label: which output of a model with several; only one with a single output needs none.

    Raises:
        ValueError: wrong options, or a checkpoint without a trained classification head.
    """

    def __init__(
        self,
        model: str | Path | PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase | None = None,
        *,
        device: str = "auto",
        batch_size: int = 16,
        dtype: str = "auto",
        max_length: int | None = None,
        too_long: str | float = "left",
        output: str = "logit",
        threshold: float | None = None,
        label: int | None = None,
    ):
        import torch

        if output not in OUTPUTS:
            raise ValueError(f"output must be one of {', '.join(OUTPUTS)}; got {output!r}")
        if too_long != "left" and not (type(too_long) in (int, float) and math.isfinite(too_long)):  # type: ignore[arg-type]
            raise ValueError(f"too_long must be 'left' or a finite score, got {too_long!r}")
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if isinstance(model, str | Path):
            self._model, self._tokenizer = _load(model, dtype)
        elif tokenizer is None:
            raise ValueError("a model object needs its tokenizer: RewardModel(model, tokenizer=...)")
        else:
            self._model, self._tokenizer = model, tokenizer
        self._label = _checked_label(len(self._model.config.id2label or {}), label)
        self._device, self._batch_size, self._too_long, self._output = device, batch_size, too_long, output
        self._threshold = threshold if threshold is not None else (0.0 if output == "logit" else 0.5)
        self._max_length = max_length or _stated_length(self._model, self._tokenizer)
        self._pad = _pad_token(self._model, self._tokenizer)
        self._special = _special_tokens(self._tokenizer)
        self._model.eval()
        self._lock = threading.Lock()

    def configuration(self) -> dict[str, Any]:
        """Options, and hashes of the weights and the tokenizer: a name says too little."""
        import torch

        weights = hashlib.sha256()
        for name, tensor in sorted(self._model.state_dict().items()):
            weights.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            weights.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        vocabulary = backend.to_str() if backend is not None else repr(sorted(self._tokenizer.get_vocab().items()))
        template = repr(self._tokenizer.chat_template)
        return {
            "model": self._model.config.to_json_string(),
            "weights": weights.hexdigest(),
            "tokenizer": hashlib.sha256((vocabulary + template).encode()).hexdigest(),
            **{name: vars(self)[f"_{name}"] for name in ("max_length", "too_long", "output", "threshold", "label")},
            "device": self._device.partition(":")[0],
        }

    def verify(self, example: Example, answer: Answer) -> Verdict:
        """Score one answer; raises `VerifierError` as `verify_batch` does."""
        return self.verify_batch([(example, answer)])[0]

    def verify_batch(self, pairs: Sequence[tuple[Example, Answer]]) -> list[Verdict]:
        """Score several answers, in order.

        Raises:
            VerifierError: a score is not finite, the model failed, or a prompt of messages meets no chat template.
        """
        began = time.perf_counter()
        with self._lock:  # tokenizers, too, are not safe to share
            rows = [self._encode(example, answer) for example, answer in pairs]
            lengths = [len(row) for row in rows]
            asked = [i for i, length in enumerate(lengths) if self._too_long == "left" or length <= self._max_length]
            asked.sort(key=lambda i: -lengths[i])  # the largest batch first: too large a one fails at once
            logits: dict[int, float] = {}
            for start in range(0, len(asked), self._batch_size):
                chosen = asked[start : start + self._batch_size]
                logits.update(zip(chosen, self._logits([rows[i][-self._max_length :] for i in chosen]), strict=True))
        seconds = (time.perf_counter() - began) / max(1, len(pairs))
        return [self._verdict(example, logits.get(i), lengths[i], seconds) for i, (example, _) in enumerate(pairs)]

    def close(self) -> None:
        """Move the model off its device; scoring again brings it back."""
        with self._lock:
            self._model.to("cpu")  # type: ignore[arg-type]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def _encode(self, example: Example, answer: Answer) -> list[int]:
        """Token ids of the conversation."""
        text = self._special.sub(lambda match: match[0] + " ", answer.text.encode(errors="replace").decode())
        if self._tokenizer.chat_template is None:
            if not isinstance(example.prompt, str):
                raise VerifierError(
                    f"example {example.id!r}: the prompt is chat messages, and the tokenizer has no chat template"
                )
            return list(self._tokenizer(example.prompt, text, verbose=False)["input_ids"])
        asked = [{"role": "user", "content": example.prompt}] if isinstance(example.prompt, str) else example.prompt
        messages = [*map(dict, asked), {"role": "assistant", "content": text}]
        rendered = self._tokenizer.apply_chat_template(messages, tokenize=False)
        return list(self._tokenizer(rendered, add_special_tokens=False, verbose=False)["input_ids"])

    def _logits(self, rows: list[list[int]]) -> list[float]:
        """One logit per row, rows padded on the right."""
        import torch

        width = max(1, *map(len, rows)) if rows else 1
        ids = torch.full((len(rows), width), self._pad)  # (B, T)
        mask = torch.zeros_like(ids)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = torch.tensor(row, dtype=ids.dtype)
            mask[i, : len(row)] = 1
        try:
            self._model.to(self._device)  # type: ignore[arg-type]
            with torch.inference_mode():
                scores: torch.Tensor = self._model(
                    input_ids=ids.to(self._device), attention_mask=mask.to(self._device)
                ).logits
        except RuntimeError as error:
            raise VerifierError(f"the reward model failed on {len(rows)} x {width} tokens: {error}") from error
        return scores[:, self._label].double().tolist()

    def _verdict(self, example: Example, logit: float | None, length: int, seconds: float) -> Verdict:
        if logit is None:
            assert not isinstance(self._too_long, str)
            feedback = f"prompt and answer are longer than {self._max_length} tokens"
            return Verdict(float(self._too_long), False, "too_large", feedback=feedback, seconds=seconds)
        if not math.isfinite(logit):
            raise VerifierError(f"example {example.id!r}: the reward model's score is not finite: {logit!r}")
        score = logit if self._output == "logit" else _sigmoid(logit)
        passed = score > self._threshold
        components = {"logit": logit, "truncated": float(length > self._max_length)}
        return Verdict(score, passed, "passed" if passed else "wrong", components, f"score {score:.4g}", seconds)


def _sigmoid(logit: float) -> float:
    return 0.5 * (1.0 + math.tanh(0.5 * logit))  # cannot overflow


def _load(name: str | Path, dtype: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model, report = AutoModelForSequenceClassification.from_pretrained(name, dtype=dtype, output_loading_info=True)
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"])[:3])
        raise ValueError(f"{str(name)!r} is no sequence-classification checkpoint: it has no weights for {missing}")
    return model, AutoTokenizer.from_pretrained(name)


def _checked_label(count: int, label: int | None) -> int:
    if label is None and count != 1:
        raise ValueError(f"the model has {count} outputs: choose one with label=0..{count - 1}")
    if label is not None and not 0 <= label < count:
        raise ValueError(f"label must be in 0..{count - 1}, got {label}")
    return label or 0


def _stated_length(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Tokens that both can take; a tokenizer without a limit states an enormous one."""
    return min(getattr(model.config, "max_position_embeddings", None) or 1 << 30, tokenizer.model_max_length)


def _pad_token(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """The token that the model skips when it looks for the last one. Never the end token, unless it was trained so."""
    if model.config.pad_token_id is None:
        choices = (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.unk_token_id, tokenizer.eos_token_id)
        known = [token for token in choices if token is not None]
        if not known:
            raise ValueError("the tokenizer has no special token to pad with: set tokenizer.pad_token")
        model.config.pad_token_id = known[0]
    return model.config.pad_token_id


def _special_tokens(tokenizer: PreTrainedTokenizerBase) -> re.Pattern[str]:
    """Matches one character wherever the text of a special token begins."""
    texts = {str(token) for token in tokenizer.added_tokens_decoder.values()} | set(tokenizer.all_special_tokens)
    choices = "|".join(re.escape(text) for text in sorted(texts) if len(text) > 1)
    return re.compile(f"(?={choices})." if choices else "(?!)", re.DOTALL)
