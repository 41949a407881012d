# ruff: noqa: E501 - programs read better on one line
"""Ways out of the sandbox through the kernel. A program that gets its way answers rightly, so a breach is a pass."""

from __future__ import annotations

from tests.hostile.program import attack, collect, syscall

# fmt: off


def _worked(call: str, before: str = "") -> str:
    return attack(f"{before}\nreturn {call} >= 0" if before else f"return {call} >= 0")


def _opens(*paths: str, mode: str = "rb") -> str:
    return attack(
        f"for path in {paths!r}:\n    try: open(path, {mode!r}).read(1)\n    except OSError: continue\n    return True"
    )


def _writes(text: str, *paths: str) -> str:
    return attack(
        f"for path in {paths!r}:\n    try:\n        with open(path, 'w') as f: f.write({text!r})\n"
        "    except (OSError, ValueError): continue\n    return True"
    )


PROGRAMS = collect(
    "kernel",
    ("user_namespace", "wrong", _worked("libc.unshare(0x10000000)")),
    ("mount_namespace", "wrong", _worked("libc.unshare(0x00020000)")),
    ("other_namespaces", "wrong", attack("return any(libc.unshare(f) == 0 for f in (0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000))")),
    ("clone_into_user_namespace", "wrong", _worked(syscall(56, 220, "0x10000011", "0", "0", "0", "0"))),
    ("enter_namespaces_of_others", "wrong", attack("return any(libc.setns(os.open(f'/proc/{pid}/ns/{kind}', 0), 0) == 0 for pid in (1, os.getppid() or 1) for kind in ('mnt', 'pid', 'net', 'user'))")),
    ("mount_tmpfs", "wrong", _worked("libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None)")),
    ("mount_proc", "wrong", _worked("libc.mount(b'proc', b'/proc', b'proc', 0, None)")),
    ("remount_root", "wrong", _worked("libc.mount(None, b'/', None, 32 | 4096, None)")),
    ("bind_mount", "wrong", _worked("libc.mount(b'/tmp', b'/usr', None, 4096, None)")),
    ("unmount", "wrong", attack("return any(libc.umount2(p, f) == 0 for p in (b'/tmp', b'/proc', b'/dev/shm', b'/') for f in (0, 2))")),
    ("new_mount_api", "wrong", _worked(syscall(430, 430, "b'tmpfs'", "0"))),
    ("clone_of_the_tree", "wrong", _worked(syscall(428, 428, "-100", "b'/'", "1"))),
    ("chroot", "wrong", attack("os.mkdir('/tmp/root')\nos.chroot('/tmp/root')\nreturn True")),
    ("pivot_root", "wrong", _worked(syscall(155, 41, "b'/tmp'", "b'/tmp'"))),
    ("become_root", "wrong", attack("before = os.getuid()\nos.setuid(0)\nreturn before != 0")),
    ("become_another_user", "wrong", attack("other = 12345\nos.setresuid(other, other, other)\nreturn True")),
    ("other_groups", "wrong", attack("os.setgroups([0])\nreturn True")),
    ("regain_capabilities", "wrong", attack("header, full = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[0xffffffff] * 6)\nreturn libc.capset(header, full) == 0")),
    ("ambient_capability", "wrong", _worked("libc.prctl(47, 2, 21, 0, 0)")),
    ("allow_new_privileges", "wrong", _worked("libc.prctl(38, 0, 0, 0, 0)")),
    ("setuid_binaries", "wrong", attack("import subprocess\nfor n in ('su', 'sudo', 'mount', 'newgrp', 'pkexec'):\n    try: out = subprocess.run([n, '-c', 'id -u'], capture_output=True, stdin=-3).stdout\n    except OSError: continue\n    if out.strip() == b'0' and os.getuid(): return True")),
    ("write_user_maps", "wrong", _writes("0 0 1", "/proc/self/uid_map", "/proc/self/gid_map", "/proc/1/uid_map")),
    ("lower_oom_score", "wrong", _writes("-1000", "/proc/self/oom_score_adj", "/proc/1/oom_score_adj")),
    ("raise_hard_limits", "wrong", attack("import resource\nfor name in ('AS', 'CPU', 'NPROC', 'FSIZE', 'NOFILE', 'CORE'):\n    limit = getattr(resource, 'RLIMIT_' + name)\n    try: resource.setrlimit(limit, (-1, -1))\n    except (OSError, ValueError): continue\n    return True")),
    ("memory_devices", "wrong", _opens("/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore", "/proc/kmsg", "/dev/kmsg", "/dev/sda", "/dev/vda")),
    ("write_kernel_log", "wrong", _writes("passed", "/dev/kmsg", "/dev/console", "/dev/tty1")),
    ("create_device", "wrong", attack("os.mknod('/tmp/disk', 0o60666, os.makedev(8, 0))\nos.mknod('/tmp/mem', 0o20666, os.makedev(1, 1))\nreturn True")),
    ("system_request_key", "wrong", _writes("h", "/proc/sysrq-trigger")),
    ("kernel_settings", "wrong", _writes("1", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sys/kernel/modprobe", "/proc/sys/fs/binfmt_misc/register", "/proc/sys/user/max_user_namespaces")),
    ("kernel_folders", "wrong", attack("return os.path.exists('/sys/kernel') or os.path.exists('/sys/fs/cgroup/cgroup.procs')")),
    ("host_files", "wrong", _opens("/etc/passwd", "/etc/shadow", "/root/.bashrc", "/var/log/dmesg", "/proc/1/root/etc/passwd", "/proc/self/root/etc/hostname")),
    ("climb_out_of_the_root", "wrong", _opens("/../../../etc/passwd", "/proc/self/cwd/../../../etc/passwd", "/judge/../../etc/passwd")),
    ("open_by_handle", "wrong", attack(f"handle = (ctypes.c_uint32 * 34)(8, 1, 2, 0)\nreturn {syscall(304, 265, 'os.open(chr(47), 0)', 'handle', '0')} >= 0")),
    ("files_by_descriptors_of_init", "wrong", attack("for name in os.listdir('/proc/1/fd'):\n    if os.readlink('/proc/1/fd/' + name).startswith(('/root', '/home', 'socket')): return True")),
    ("writable_system", "wrong", _writes("x", "/judge/codec.py", "/judge/x", "/py/x", "/usr/x", "/usr/lib/x", "/x", "/dev/x", "/etc/x", "/bin/x")),
    ("bpf", "wrong", attack(f"attributes = (ctypes.c_uint32 * 16)(2, 4, 4, 1)\nreturn {syscall(321, 280, '0', 'attributes', '64')} >= 0")),
    ("performance_counters_of_all", "wrong", attack(f"attributes = (ctypes.c_uint32 * 32)(1, 128)\nreturn {syscall(298, 241, 'attributes', '-1', '0', '-1', '0')} >= 0")),
    ("kernel_module", "wrong", _worked(syscall(175, 105, "b''", "0", "b''"))),
    ("kexec", "wrong", _worked(syscall(246, 104, "0", "0", "0", "0"))),
    ("reboot", "wrong", attack(f"return {syscall(169, 142, '0xfee1dead', '672274793', '0x89abcdef', '0')} == 0")),
    ("set_clock", "wrong", attack("import time\ntime.clock_settime(time.CLOCK_REALTIME, time.time())\nreturn True")),
    ("set_host_name", "wrong", attack("import socket\nsocket.sethostname('passed')\nreturn True")),
    ("read_kernel_messages", "wrong", _worked("libc.klogctl(3, ctypes.create_string_buffer(99), 99)")),
    ("accounting", "wrong", attack("return libc.acct(b'/tmp/x') == 0 or libc.swapon(b'/tmp/x', 0) == 0")),
    ("input_output_ports", "wrong", attack("return os.uname().machine == 'x86_64' and (libc.iopl(3) == 0 or libc.ioperm(0x378, 4, 1) == 0)")),
    ("watch_whole_mount", "wrong", _worked("libc.fanotify_init(0x200, 0)")),
    ("inject_terminal_input", "wrong", attack("import fcntl\nfor path in ('/dev/tty', '/dev/console', '/dev/pts/0'):\n    try: fcntl.ioctl(os.open(path, os.O_RDWR), 0x5412, b'x')\n    except OSError: continue\n    return True")),
    ("locked_memory", "wrong", attack("blocks = ctypes.create_string_buffer(64 << 20)\nreturn libc.mlock(blocks, 64 << 20) == 0")),
    ("capture_packets", "wrong", attack("import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW)\nreturn True")),
    ("raw_socket", "wrong", attack("import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\nreturn True")),
    ("configure_network", "wrong", attack("import fcntl, socket\nfcntl.ioctl(socket.socket(), 0x8914, b'lo'.ljust(16, b'\\0') + b'\\0' * 24)\nreturn True")),
    ("connect_to_the_internet", "wrong", attack("import socket\nsocket.create_connection(('1.1.1.1', 53), 1)\nreturn True")),
    ("send_to_the_internet", "wrong", attack("import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('8.8.8.8', 53))\nreturn True")),
    ("look_up_a_name", "wrong", attack("import socket\nreturn bool(socket.getaddrinfo('example.com', 80))")),
    ("services_of_the_host", "wrong", attack("import socket\nfor port in (22, 80, 111, 443, 631, 6006, 8080, 8888):\n    try: socket.create_connection(('127.0.0.1', port), 0.1)\n    except OSError: continue\n    return True")),
    ("abstract_sockets_of_the_host", "wrong", attack("return len(open('/proc/net/unix').readlines()) > 1")),
    ("virtual_machine_socket", "wrong", attack("import socket\ns = socket.socket(socket.AF_VSOCK)\ns.settimeout(0.2)\ns.connect((2, 1024))\nreturn True")),
    harmful=True,
)
