"""Where policies come from: a tiny model built on the spot, a pretrained name or folder, or a GGUF file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

PAD, EOS = "<pad>", "<eos>"


@dataclass(frozen=True)
class TinyConfig:
    """Shape of the small decoder that trains on a laptop (Llama architecture)."""

    hidden_size: int = 128
    intermediate_size: int = 384
    layers: int = 4
    heads: int = 4
    vocab_size: int = 512
    """Most entries of the byte-pair tokenizer trained on the task's texts."""


PIECES = r"\d+\| *|\n| ?\d| ?[A-Za-z]+|_| ?[^\s\w]+|\s+"
"""What byte-pair merges may not cross: numbered line heads (`3|    `), digits, words, underscores, runs of signs."""


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of the given texts: any string encodes; `<pad>` is 0 and `<eos>` 1."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=EOS, clean_up_tokenization_spaces=False
    )


def build_tiny(tokenizer: Any, config: TinyConfig, max_length: int, seed: int) -> LlamaForCausalLM:
    """A randomly initialised decoder for at most `max_length` tokens; the same seed gives the same weights."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=config.hidden_size,
                intermediate_size=config.intermediate_size,
                num_hidden_layers=config.layers,
                num_attention_heads=config.heads,
                num_key_value_heads=config.heads,
                max_position_embeddings=max_length,
                pad_token_id=tokenizer.pad_token_id,
                eos_token_id=tokenizer.eos_token_id,
                bos_token_id=None,
                tie_word_embeddings=True,
            )
        )


def add_adapter(model: Any, rank: int, seed: int) -> Any:
    """A PEFT model that trains a LoRA adapter on every linear layer of the blocks; it changes nothing at the start.

    Raises:
        ImportError: `peft` is not installed.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise ImportError("an adapter needs peft: pip install 'llm-envs[adapter]'") from error
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
        return get_peft_model(model, config)


def load_pretrained(model: str, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """(model, tokenizer) of a name on the hub, a folder, or a `.gguf` file.

    Raises:
        FileNotFoundError: a path that does not exist.
        ValueError: a model or tokenizer that cannot be loaded, with the reason.
    """
    path = Path(model)
    source, extra = model, {}
    looks_like_path = path.suffix == ".gguf" or model.startswith((".", "/", "~"))
    if looks_like_path:
        path = path.expanduser()
        if not path.exists():
            raise FileNotFoundError(
                f"model {model!r} does not exist: expected a folder, a .gguf file or a name on the hub"
            )
        source = str(path)
        if path.suffix == ".gguf":
            source, extra = str(path.parent), {"gguf_file": path.name}
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **extra)
        loaded: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, **extra)
    except Exception as error:  # a damaged file raises whatever its reader raises; it is the caller's file all the same
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(
            f"could not load model {model!r} (tiny, a hub name, a folder or a .gguf file): {reason}"
        ) from error
    if "gguf_file" in extra:
        # The weights have been dequantised on loading; the mark that stays behind would only forbid saving them.
        loaded.hf_quantizer = None
        if hasattr(loaded.config, "quantization_config"):
            del loaded.config.quantization_config
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return loaded, tokenizer


def spoken_by(tokenizer: Any) -> dict[str, Any]:
    """Options of an environment for a pretrained model: its tokenizer, and its chat template if it has one."""
    return {"tokenizer": tokenizer} | ({"message_format": "chat"} if getattr(tokenizer, "chat_template", None) else {})
