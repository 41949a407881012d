"""A task small enough to learn from nothing: reverse a short word. `abc` -> `cba`.

Graded by letters, since a whole word is never right by chance. `import reverse_words` registers it.
"""

from random import Random
from string import ascii_lowercase

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

from llm_envs import register_task

ID = "llm_envs/ReverseWord-v0"
TOKENS = ["<pad>", "<eos>", "\n", "?", *ascii_lowercase]


def share_of_letters(example, answer) -> float:
    """Share of positions with the right letter; letters too many or too few are wrong ones."""
    gold, text = example.hidden["answer"], answer.text
    return sum(a == b for a, b in zip(gold, text, strict=False)) / max(len(gold), len(text))


letters = Tokenizer(models.WordLevel({token: i for i, token in enumerate(TOKENS)}, unk_token="?"))
letters.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
letters.decoder = decoders.Fuse()
rng = Random(0)
words = list(dict.fromkeys("".join(rng.choices(ascii_lowercase, k=rng.randint(2, 4))) for _ in range(6000)))
records = [{"word": word, "answer": word[::-1]} for word in words]

register_task(
    "ReverseWord",
    problems={"train": records[400:], "validation": records[200:400], "test": records[:200]},
    prompt="{word}\n",
    verifier=share_of_letters,
    max_new_tokens=5,
    tokenizer=letters,
    max_length=10,
)
