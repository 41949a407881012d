"""Problems from a table that gives its rows by number, such as a `Dataset` of Hugging Face's `datasets`.

    dataset = datasets.load_dataset("openai/gsm8k", "main")        # a dict of splits
    register_task("GSM8K", problems=dataset, prompt="{question}\\n", verifier="numeric",
                  hidden=lambda row: {"answer": row["answer"].split("####")[1].strip()})

The package is not needed for anything here. All rows are read into memory; datasets that can only be streamed are
refused. `hidden={"answer": "target"}` takes hidden fields from columns of other names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llm_envs.error import OptionError
from llm_envs.records import Located


def read_rows(table: Any, name: str) -> Iterator[Located]:
    """The rows, each a dict of the table's columns."""
    if not hasattr(table, "__len__") or not hasattr(table, "__getitem__"):
        raise OptionError(
            f"{name} must be a dataset that gives its rows by number, got {type(table).__name__}; "
            "load it without streaming, or take(n) of it as a list"
        )
    for index in range(len(table)):
        yield Located(f"{name}, row {index}", str(index), table[index])
