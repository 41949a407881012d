"""Runs inside the sandbox: a filter that refuses system calls which no submission needs, so that less of the kernel can
be attacked. The zygote installs it once, for itself and all its executions, at no cost for each of them. In a container
the zygote itself mounts and clones into namespaces, so `mount` and the flags of clone are left out there; a submission
is kept from both by having no capabilities and no way to get them.

Refused (EPERM): other processes' memory and descriptors (ptrace, process_vm_*, pidfd_getfd), mounts, namespaces, kernel
modules, kexec, bpf, perf, userfaultfd, io_uring, the kernel keyring, clocks, and memory that no limit counts (System V
IPC, message queues, memfd). Sockets are of the families UNIX, INET, INET6 and NETLINK only. System calls of another
architecture (32 bit on x86-64) are refused altogether. clone3 seems missing, since a filter cannot read its flags; the
C library then uses clone. Handlers for SIGCHLD are accepted and have no effect: with the signal ignored, the kernel
forgets what ended children have used, and nobody could count it.

Not covered: all other system calls, some 300, with whatever arguments; a fault of the kernel in one of them is not
contained.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

# Machine -> (AUDIT_ARCH number, column in the tables below).
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1), "riscv64": (0xC00000F3, 1)}
REFUSED = {
    **{"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272)},
    **{"pidfd_getfd": (438, 438), "process_madvise": (440, 440), "perf_event_open": (298, 241), "bpf": (321, 280)},
    **{"userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426)},
    **{"io_uring_register": (427, 427), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219)},
    **{"mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428)},
    **{"move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432)},
    **{"fspick": (433, 433), "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268)},
    **{"init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104)},
    **{"kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225)},
    **{"acct": (163, 89), "syslog": (103, 116), "quotactl": (179, 60), "fanotify_init": (300, 262)},
    **{"name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "settimeofday": (164, 170)},
    **{"clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171), "personality": (135, 92)},
    **{"shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180)},
    **{"memfd_create": (319, 279), "memfd_secret": (447, 447)},
}
"""System call -> its number on x86-64 and on machines with the generic table."""
REFUSED_ON_X86 = {"modify_ldt": 154, "iopl": 172, "ioperm": 173, "vhangup": 153}
_SOCKET, _SOCKETPAIR, _CLONE, _CLONE3 = (41, 198), (53, 199), (56, 220), (435, 435)
_SIGACTION, _SIGCHLD = (13, 134), 17
_FAMILIES = (1, 2, 10, 16)
_NAMESPACE_FLAGS = 0x7E020000  # every CLONE_NEW* that clone takes
_X32_BIT = 0x40000000

# Instructions and return values of classic BPF; positions of the fields that it can load.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ENDS = {"allow": 0x7FFF0000, "EPERM": 0x00050001, "ENOSYS": 0x00050026, "skip": 0x00050000}
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2


def build_filter(in_container: bool) -> bytes | None:
    """The filter as a BPF program; None on a machine that is not in the table.

    Args:
        in_container: leave out what the zygote of a container needs.
    """
    if os.uname().sysname != "Linux" or platform.machine() not in _MACHINES:
        return None
    architecture, column = _MACHINES[platform.machine()]
    refused = [numbers[column] for name, numbers in REFUSED.items() if not (in_container and name == "mount")]
    # (instruction, operand, where to go if the test holds, and if not); None is the next instruction.
    program: list[tuple[int, int, str | None, str | None]] = [
        (_LOAD, _ARCHITECTURE, None, None),
        (_EQUAL, architecture, None, "EPERM"),
        (_LOAD, _NUMBER, None, None),
    ]
    if column == 0:
        program.append((_AT_LEAST, _X32_BIT, "EPERM", None))
        refused += REFUSED_ON_X86.values()
    program += [(_EQUAL, number, "EPERM", None) for number in refused]
    program += [
        (_EQUAL, _CLONE3[column], "ENOSYS", None),
        (_EQUAL, _CLONE[column], "clone", None),
        (_EQUAL, _SIGACTION[column], "sigaction", None),
        (_EQUAL, _SOCKET[column], "socket", None),
        (_EQUAL, _SOCKETPAIR[column], "socket", "allow"),
    ]
    labels = {"clone": len(program)}
    program += [
        (_LOAD, _FIRST_ARGUMENT, None, None),
        (_ANY_BIT, 0 if in_container else _NAMESPACE_FLAGS, "EPERM", "allow"),
    ]
    labels["sigaction"] = len(program)
    program += [(_LOAD, _FIRST_ARGUMENT, None, None), (_EQUAL, _SIGCHLD, "skip", "allow")]
    labels["socket"] = len(program)
    program.append((_LOAD, _FIRST_ARGUMENT, None, None))
    program += [(_EQUAL, family, "allow", None) for family in _FAMILIES[:-1]]
    program.append((_EQUAL, _FAMILIES[-1], "allow", "EPERM"))
    labels |= {end: len(program) + position for position, end in enumerate(_ENDS)}
    program += [(_RETURN, value, None, None) for value in _ENDS.values()]

    def offset(target: str | None, position: int) -> int:
        return 0 if target is None else labels[target] - position - 1

    return b"".join(
        struct.pack("HBBI", code, offset(yes, position), offset(no, position), operand)
        for position, (code, operand, yes, no) in enumerate(program)
    )


def install_filter(libc: ctypes.CDLL, in_container: bool) -> None:
    """Apply the filter to this process and what it starts, for good; needs no_new_privs.

    Raises:
        OSError: the kernel does not take filters.
    """
    code = build_filter(in_container)
    if code is None:
        return
    # struct sock_fprog: number of instructions, padding, pointer to them.
    address = ctypes.cast(ctypes.c_char_p(code), ctypes.c_void_p).value
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code) // 8, address))
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0) < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"seccomp filter: {os.strerror(error)}")
