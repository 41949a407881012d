"""Judges: an answer in, a verdict out."""

from verifiers.base import Answer, Example, Verdict, Verifier, VerifierError
from verifiers.cached import Cached
from verifiers.code.function_tests import FunctionTests
from verifiers.code.program_tests import ProgramTests
from verifiers.code.pytest_files import PytestFiles
from verifiers.composition import Gate, PerExample, WeightedSum
from verifiers.function_verifier import FunctionVerifier
from verifiers.registry import get_verifier
from verifiers.reward_model import RewardModel
from verifiers.sandbox.limits import Limits, SandboxUnavailable
from verifiers.testing import check_verifier
from verifiers.text.exact_match import ExactMatch
from verifiers.text.json_schema import JsonSchema
from verifiers.text.math_equal import MathEqual
from verifiers.text.numeric import Numeric
from verifiers.text.text_judges import Contains, RegularExpression
from verifiers.trusted.process import CallDied, CallTimeout, TrustedProcess

__all__ = [
    "Answer",
    "Cached",
    "CallDied",
    "CallTimeout",
    "Contains",
    "ExactMatch",
    "Example",
    "FunctionTests",
    "FunctionVerifier",
    "Gate",
    "JsonSchema",
    "Limits",
    "MathEqual",
    "Numeric",
    "PerExample",
    "ProgramTests",
    "PytestFiles",
    "RegularExpression",
    "RewardModel",
    "SandboxUnavailable",
    "TrustedProcess",
    "Verdict",
    "Verifier",
    "VerifierError",
    "WeightedSum",
    "check_verifier",
    "get_verifier",
]
