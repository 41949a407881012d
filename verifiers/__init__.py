"""Judges: an answer in, a verdict out."""

from verifiers.base import Answer, Example, Verdict, Verifier, VerifierError
from verifiers.exact_match import ExactMatch
from verifiers.function_tests import FunctionTests
from verifiers.limits import Limits, SandboxUnavailable
from verifiers.registry import get_verifier

__all__ = [
    "Answer",
    "ExactMatch",
    "Example",
    "FunctionTests",
    "Limits",
    "SandboxUnavailable",
    "Verdict",
    "Verifier",
    "VerifierError",
    "get_verifier",
]
