"""What one execution of a submission may use, and the error of a machine that cannot enforce it."""

from __future__ import annotations

from dataclasses import dataclass, fields

from verifiers.base import VerifierError


class SandboxUnavailable(VerifierError):
    """This machine cannot run the sandbox that was asked for; the message names the step that failed."""


@dataclass(frozen=True)
class Limits:
    """Limits of one execution: loading a submission once and answering all its calls.

    Attributes:
        cpu_s: CPU seconds, the limit that decides. The sandbox sums an execution's living processes every 50 ms (on
            macOS the kernel holds each process to the next whole second).
        wall_s: wall-clock seconds, a distant backstop for programs that sleep or deadlock; retried once, unless the
            program did nothing but wait.
        memory_mb: address space of each process, and resident memory of all of them together, MiB.
        processes: processes and threads at one time, the submission's own included; not with `sandbox="process"`.
        file_mb: largest file and, in a container, all of the scratch folder together, MiB.
        files: files and folders in the scratch folder; only in a container.
        open_files: open file descriptors of each process.
        result_bytes: largest encoded result of one call, bytes; a larger one is `too_large`.
        source_bytes: longest submission, bytes of UTF-8; a longer one is `bad_source`.
    """

    cpu_s: float = 2.0
    wall_s: float = 10.0
    memory_mb: int = 512
    processes: int = 16
    file_mb: int = 8
    files: int = 500
    open_files: int = 32
    result_bytes: int = 1 << 18
    source_bytes: int = 1 << 18

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            kinds = (int, float) if field.name in ("cpu_s", "wall_s") else (int,)
            if type(value) not in kinds or not value > 0:
                raise ValueError(f"Limits.{field.name} must be a positive {kinds[-1].__name__}, got {value!r}")
