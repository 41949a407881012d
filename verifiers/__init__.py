"""Judges: an answer in, a verdict out."""

from verifiers.base import Answer, Example, Verdict, Verifier, VerifierError

__all__ = ["Answer", "Example", "Verdict", "Verifier", "VerifierError"]
