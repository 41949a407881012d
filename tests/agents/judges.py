"""Judges for commands, which take them by name: one lets nothing pass, one breaks."""

from verifiers import Verdict, Verifier, VerifierError


class Never(Verifier):
    def verify(self, example, answer):
        return Verdict(0.0, False, "wrong")


class Broken(Verifier):
    def verify(self, example, answer):
        raise VerifierError("no judge today")
