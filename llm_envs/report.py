"""What `check_task` found, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass, field

from llm_envs.task import content_hash


@dataclass
class SplitCount:
    """How many examples a split has and how many were looked at."""

    split: str
    size: int
    checked: int = 0


@dataclass
class Report:
    """What `check_task` found; `str` of it is for people.

    Attributes:
        problems: what is wrong, one sentence each; a sentence covers all examples of a split that share the fault.
        notes: what was not checked, and what may be meant so.
        fingerprint: of the verifier, in full (printed is its hash); "" when it has none.
    """

    task: str
    verifier: str = ""
    fingerprint: str = ""
    max_new_tokens: int = 0
    splits: list[SplitCount] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        lines = [f"{self.task}: verifier {self.verifier or 'unknown'}, at most {self.max_new_tokens} tokens an answer"]
        lines += [f"  {count.split}: {count.checked} of {count.size} examples checked" for count in self.splits]
        if self.fingerprint:
            lines.append(f"  fingerprint of the verifier: {content_hash(self.fingerprint)}")
        lines += [f"  note: {note}" for note in self.notes]
        lines += [f"  wrong: {problem}" for problem in self.problems]
        things = "thing is" if len(self.problems) == 1 else "things are"
        verdict = "nothing is wrong" if self.ok else f"{len(self.problems)} {things} wrong"
        return "\n".join([*lines, f"  {verdict}; {self.seconds:.1f} s"])
