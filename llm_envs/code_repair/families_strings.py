"""Families over one lowercase string, letter by letter."""

from __future__ import annotations

import re
from random import Random

from llm_envs.code_repair.inputs import words
from llm_envs.code_repair.program import Program, each, family, nest

_LETTERS = "abcdefgxyz"


@family("count_letter", theme="strings")
def count_letter(r: Random) -> Program:
    """count_a, count_not_a, count_a_or_b, count_up_to_a, count_after_a."""
    a, b = r.sample(_LETTERS, 2)
    name, test, holds = r.choice(
        (
            (f"count_{a}", f"c == '{a}'", lambda c: c == a),
            (f"count_not_{a}", f"c != '{a}'", lambda c: c != a),
            (f"count_{a}_or_{b}", f"c in '{a}{b}'", lambda c: c in (a, b)),
            (f"count_up_to_{a}", f"c <= '{a}'", lambda c: ord(c) - ord(a) < 1),
            (f"count_after_{a}", f"c > '{a}'", lambda c: ord(c) - ord(a) > 0),
        )
    )
    loop = "n = 0\n" + each(r, "c", "s", f"if {test}: n += 1") + "\nreturn n"
    body = r.choice((loop, loop, f"return len([c for c in s if {test}])"))
    return Program(name, nest(f"def {name}(s):", body), lambda s: len(list(filter(holds, s))), words(r, a + a + b))


@family("remove_letter", theme="strings")
def remove_letter(r: Random) -> Program:
    """remove_a, keep_only_a, remove_a_and_b, remove_before_a, remove_after_a."""
    a, b = r.sample(_LETTERS, 2)
    name, keep, holds = r.choice(
        (
            (f"remove_{a}", f"c != '{a}'", lambda c: c != a),
            (f"keep_only_{a}", f"c == '{a}'", lambda c: c == a),
            (f"remove_{a}_and_{b}", f"c not in '{a}{b}'", lambda c: c not in (a, b)),
            (f"remove_before_{a}", f"c >= '{a}'", lambda c: ord(c) - ord(a) > -1),
            (f"remove_after_{a}", f"c <= '{a}'", lambda c: ord(c) - ord(a) < 1),
        )
    )
    body = r.choice(
        (
            "k = ''\n" + each(r, "c", "s", f"if {keep}: k += c") + "\nreturn k",
            f"return ''.join([c for c in s if {keep}])",
            f"k = ''\nfor c in s:\n    k += c if {keep} else ''\nreturn k",
        )
    )
    return Program(name, nest(f"def {name}(s):", body), lambda s: "".join(filter(holds, s)), words(r, a + a + b))


@family("replace_letter", theme="strings")
def replace_letter(r: Random) -> Program:
    """replace_a_with_b, swap_a_and_b."""
    a, b = r.sample(_LETTERS, 2)
    swap = r.random() < 0.3
    name = f"swap_{a}_and_{b}" if swap else f"replace_{a}_with_{b}"
    mapping = {a: b, b: a} if swap else {a: b}
    if swap:
        body = r.choice(
            (
                f"k = ''\nfor c in s:\n    k += {{'{a}': '{b}', '{b}': '{a}'}}.get(c, c)\nreturn k",
                f"k = ''\nfor c in s:\n    k += '{b}' if c == '{a}' else '{a}' if c == '{b}' else c\nreturn k",
                f"return s.replace('{a}', '-').replace('{b}', '{a}').replace('-', '{b}')",
            )
        )
    else:
        body = r.choice(
            (
                f"return s.replace('{a}', '{b}')",
                f"k = ''\nfor c in s:\n    if c == '{a}':\n        c = '{b}'\n    k += c\nreturn k",
                f"return ''.join(['{b}' if c == '{a}' else c for c in s])",
            )
        )
    reference = lambda s: s.translate(str.maketrans(mapping))  # noqa: E731
    return Program(name, nest(f"def {name}(s):", body), reference, words(r, a + b))


@family("repeat_letters", theme="strings")
def repeat_letters(r: Random) -> Program:
    """repeat_a_3_times, repeat_each_2_times."""
    k, a = r.randint(2, 4), r.choice(_LETTERS)
    only = r.random() < 0.7
    name = f"repeat_{a}_{k}_times" if only else f"repeat_each_{k}_times"
    body = r.choice(
        (
            f"out = ''\nfor c in s:\n    if c == '{a}':\n        out += c * {k}\n    else:\n        out += c\n"
            f"return out",
            f"return ''.join([c * {k} if c == '{a}' else c for c in s])",
            f"return s.replace('{a}', '{a}' * {k})",
        )
        if only
        else (
            f"out = ''\nfor c in s:\n    out += c * {k}\nreturn out",
            f"return ''.join([c * {k} for c in s])",
            f"out = ''\nfor i in range(len(s)):\n    out += {k} * s[i]\nreturn out",
        )
    )

    def reference(s: str) -> str:
        return "".join("".join([c for _ in range(k)]) if c == a or not only else c for c in s)

    return Program(name, nest(f"def {name}(s):", body), reference, words(r, a, longest=5))


@family("uppercase_some", theme="strings")
def uppercase_some(r: Random) -> Program:
    """upper_a, upper_all_but_a, upper_first_2, upper_last_2, upper_every_3."""
    a, k = r.choice(_LETTERS), r.randint(1, 4)
    name, test, holds = r.choice(
        (
            (f"upper_{a}", f"s[i] == '{a}'", lambda i, s: s[i] == a),
            (f"upper_all_but_{a}", f"s[i] != '{a}'", lambda i, s: s[i] != a),
            (f"upper_first_{k}", f"i < {k}", lambda i, s: i in range(k)),
            (f"upper_after_first_{k}", f"i >= {k}", lambda i, s: i not in range(k)),
            (f"upper_last_{k}", f"i >= len(s) - {k}", lambda i, s: len(s[i:]) <= k),
            (f"upper_every_{k + 1}", f"i % {k + 1} == 0", lambda i, s: i in range(0, 99, k + 1)),
        )
    )
    body = r.choice(
        (
            f"k = ''\nfor i in range(len(s)):\n    if {test}:\n        k += s[i].upper()\n    else:\n"
            f"        k += s[i]\nreturn k",
            f"return ''.join([s[i].upper() if {test} else s[i] for i in range(len(s))])",
        )
    )

    def reference(s: str) -> str:
        return "".join(chr(ord(c) - 32) if holds(i, s) else c for i, c in enumerate(s))

    return Program(name, nest(f"def {name}(s):", body), reference, words(r, a))


@family("cut_or_pad", theme="strings")
def cut_or_pad(r: Random) -> Program:
    """cut_to_4_end_dot, pad_left_to_5_with_x."""
    k, fill, what = r.randint(2, 5), r.choice("xyz-."), r.choice(("left", "right", "cut"))
    word = {"-": "dash", ".": "dot"}.get(fill, fill)
    if what == "cut":
        name = f"cut_to_{k}_end_{word}"
        body = r.choice(
            (
                f"if len(s) > {k}:\n    return s[:{k}] + '{fill}'\nreturn s",
                f"return s if len(s) <= {k} else s[:{k}] + '{fill}'",
            )
        )
    else:
        name = f"pad_{what}_to_{k}_with_{word}"
        joined = f"'{fill}' + s" if what == "left" else f"s + '{fill}'"
        missing = f"'{fill}' * ({k} - len(s))"
        body = r.choice(
            (
                f"while len(s) < {k}:\n    s = {joined}\nreturn s",
                f"return {f'{missing} + s' if what == 'left' else f's + {missing}'}",
            )
        )

    def reference(s: str) -> str:
        if what == "cut":
            return re.sub(rf"^(.{{{k}}}).+$", rf"\1{fill}", s)
        return s.rjust(k, fill) if what == "left" else s.ljust(k, fill)

    return Program(name, nest(f"def {name}(s):", body), reference, words(r, longest=k + 2))


@family("prefix_suffix", theme="strings", held_out=True)
def prefix_suffix(r: Random) -> Program:
    """ensure_prefix_ab, strip_suffix_ab."""
    affix = "".join(r.sample("abcxyz", r.randint(1, 2)))
    k, front, add = len(affix), r.random() < 0.5, r.random() < 0.5
    place = "prefix" if front else "suffix"
    name = f"{'ensure' if add else 'strip'}_{place}_{affix}"
    has = f"s.{'startswith' if front else 'endswith'}('{affix}')"
    piece = f"s[:{k}] == '{affix}'" if front else f"s[-{k}:] == '{affix}'"
    added = f"'{affix}' + s" if front else f"s + '{affix}'"
    stripped = f"s[{k}:]" if front else f"s[:-{k}]"
    yes, no = ("s", added) if add else (stripped, "s")
    body = r.choice(
        (
            f"if {has}:\n    return {yes}\nreturn {no}",
            f"return {yes} if {has} else {no}",
            f"if {piece}:\n    return {yes}\nreturn {no}",
            f"if not {has}:\n    return {no}\nreturn {yes}",
        )
    )

    def reference(s: str) -> str:
        rest = s.removeprefix(affix) if front else s.removesuffix(affix)
        if not add:
            return rest
        return s if rest != s else (affix + s if front else s + affix)

    inputs = [(s if r.random() < 0.5 else (affix + s if front else s + affix),) for (s,) in words(r, affix, longest=4)]
    inputs[1:1] = [(affix,), (affix[::-1],), (affix + "a" + affix,)]
    return Program(name, nest(f"def {name}(s):", body), reference, inputs)


@family("letter_position", theme="searching")
def letter_position(r: Random) -> Program:
    """first_index_of_a, last_index_of_a_or_0: -1 (or 0) where there is none."""
    a, last = r.choice(_LETTERS), r.random() < 0.5
    default = r.choice((-1, 0))
    name = f"{'last' if last else 'first'}_index_of_{a}" + ("_or_0" if default == 0 else "")
    body = r.choice(
        (
            f"n = {default}\nfor i in range(len(s)):\n    if s[i] == '{a}':\n        n = i\nreturn n"
            if last
            else f"for i in range(len(s)):\n    if s[i] == '{a}':\n        return i\nreturn {default}",
            f"if '{a}' in s:\n    return s.{'rfind' if last else 'find'}('{a}')\nreturn {default}",
            f"i = len(s) - 1\nwhile i >= 0 and s[i] != '{a}':\n    i -= 1\nreturn {'i' if default else 'max(i, 0)'}"
            if last
            else f"for i, c in enumerate(s):\n    if c == '{a}':\n        return i\nreturn {default}",
        )
    )

    def reference(s: str) -> int:
        places = [i for i, c in enumerate(s) if c == a]
        return (places or [default])[-1 if last else 0]

    return Program(name, nest(f"def {name}(s):", body), reference, words(r, a))


@family("shift_letters", theme="strings")
def shift_letters(r: Random) -> Program:
    """shift_letters_on_3, shift_letters_back_3: around the alphabet."""
    k, back = r.randint(1, 12), r.random() < 0.5
    name = f"shift_letters_{'back' if back else 'on'}_{k}"
    sign = "-" if back else "+"
    moved = f"chr((ord({{}}) - 97 {sign} {k}) % 26 + 97)"
    body = r.choice(
        (
            f"k = ''\nfor c in s:\n    k += {moved.format('c')}\nreturn k",
            f"return ''.join([{moved.format('c')} for c in s])",
            f"k = ''\nfor i in range(len(s)):\n    k += {moved.format('s[i]')}\nreturn k",
            f"n = 'abcdefghijklmnopqrstuvwxyz'\nreturn ''.join([n[(n.find(c) {sign} {k}) % 26] for c in s])",
        )
    )
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    turn = -k if back else k
    reference = lambda s: s.translate(str.maketrans(alphabet, alphabet[turn:] + alphabet[:turn]))  # noqa: E731
    return Program(name, nest(f"def {name}(s):", body), reference, words(r, "abyz", longest=5))


@family("reverse_part", theme="strings")
def reverse_part(r: Random) -> Program:
    """reverse_first_3, reverse_after_first_3, reverse_last_3, reverse_before_last_3."""
    k, what = r.randint(2, 6), r.choice(("first", "after", "last", "before"))
    name = {
        "first": f"reverse_first_{k}",
        "after": f"reverse_after_first_{k}",
        "last": f"reverse_last_{k}",
        "before": f"reverse_before_last_{k}",
    }[what]
    cut = f"{k}" if what in ("first", "after") else f"-{k}"
    if what in ("first", "before"):
        whole, left, right = f"return s[:{cut}][::-1] + s[{cut}:]", "n = n[::-1]", ""
    else:
        whole, left, right = f"return s[:{cut}] + s[{cut}:][::-1]", "", "c = c[::-1]"
    loop = f"n, k = (s[:{cut}], '')\nfor c in s[{cut}:]:\n    k = c + k\nreturn n + k"
    back = f"n, k = ('', s[{cut}:])\nfor c in s[:{cut}]:\n    n = c + n\nreturn n + k"
    body = r.choice(
        (
            whole,
            f"n, c = (s[:{cut}], s[{cut}:])\n{left or right}\nreturn n + c",
            back if left else loop,
            f"n = s[:{cut}]\n{'n = n[::-1]' if left else 'c = s[' + cut + ':][::-1]'}\nreturn n + "
            + ("s[" + cut + ":]" if left else "c"),
        )
    )

    def reference(s: str) -> str:
        size = min(k, len(s)) if what in ("first", "after") else max(0, len(s) - k)
        head, tail = [*s][:size], [*s][size:]
        (head if left else tail).reverse()
        return "".join(head + tail)

    return Program(name, nest(f"def {name}(s):", body), reference, words(r, shortest=0, longest=7))
