"""A judge that lets nothing pass."""

from verifiers import Verdict, Verifier


class Never(Verifier):
    def verify(self, example, answer):
        return Verdict(0.0, False, "wrong")
