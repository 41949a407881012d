from __future__ import annotations

import pytest

from verifiers import Answer, ExactMatch, Example, VerifierError


def judged(text: str, answer: object = "4 x  2"):
    return ExactMatch().verify(Example("e", "", {"answer": answer}), Answer(text))


@pytest.mark.parametrize("text", ["4 x 2", "  4  x\n2\t", "4\u00a0x 2"])
def test_white_space_does_not_count(text: str):
    verdict = judged(text)
    assert (verdict.score, verdict.passed, verdict.kind) == (1.0, True, "passed")


@pytest.mark.parametrize("text", ["", "4x2", "4 X 2", "4 x 2.", "4 x 2 4 x 2"])
def test_everything_else_counts(text: str):
    verdict = judged(text)
    assert (verdict.score, verdict.passed, verdict.kind) == (0.0, False, "wrong")
    assert "4 x" not in verdict.feedback


@pytest.mark.parametrize("answer", [None, 42, ["4"]])
def test_malformed_hidden_data_are_the_judges_fault(answer: object):
    with pytest.raises(VerifierError, match=r"'e'.*\['answer'\]"):
        judged("4", answer)
