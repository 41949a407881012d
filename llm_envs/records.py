"""Records, which are plain dicts, as examples: what of them the policy sees, and what only the verifier sees.

    {"question": "2 + 3", "answer": "5"}    with prompt="{question} = "

becomes an example with the prompt "2 + 3 = ", the hidden data {"answer": "5"} and the gold answer "5":

* The prompt is the template, filled in; or what a function makes of the record; or the field `prompt`.
* Hidden is the field `hidden`; or, where there is none, every field that the template does not show. `hidden=` says
  otherwise: a function of the record, or a dict such as {"answer": "target"}, hidden field <- field of the record.
* Gold is the field `gold`; or what `gold=`, a template or a function, makes; or else the hidden answer, if it is text
  or a number.
* `id` and `metadata` are taken over. Templates may name fields of the metadata, too. A template names whole fields: it
  is text that a file may hold, so `{field.attribute}` and `{field[0]}` are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from string import Formatter
from typing import Any, NamedTuple, overload

from llm_envs.error import OptionError, ProblemFileError, unknown
from verifiers import ExactMatch, Example, Verifier, VerifierError

Record = Mapping[str, Any]
Template = str | Callable[[Record], Any]

_RESERVED = ("id", "prompt", "hidden", "gold", "metadata")
_Check = tuple[Callable[[Any], bool], str]


def _is_prompt(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list)
        and len(value) > 0
        and all(
            isinstance(message, dict)
            and set(message) == {"role", "content"}
            and all(isinstance(part, str) for part in message.values())
            for message in value
        )
    )


_FIELDS: dict[str, _Check] = {
    "id": (lambda value: isinstance(value, str), "a string"),
    "prompt": (_is_prompt, 'a string or a list of {"role": ..., "content": ...}'),
    "hidden": (lambda value: isinstance(value, Mapping), "an object"),
    "gold": (lambda value: isinstance(value, str), "a string"),
    "metadata": (lambda value: isinstance(value, Mapping), "an object"),
}


class Located(NamedTuple):
    """A record or an example, where it was found (for error messages), and the id it has unless it says another."""

    place: str
    id: str
    record: Any


class Records(Sequence[Example]):
    """Examples that remember where they come from, so that a complaint about one can say so."""

    def __init__(self, examples: Sequence[Example], places: Sequence[str]) -> None:
        self._examples, self.places = list(examples), list(places)
        self._accepted_by: list[Verifier] = []

    def __len__(self) -> int:
        return len(self._examples)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        return self._examples[index]

    def validate(self, verifier: Verifier) -> None:
        """Have a verifier check the hidden data of every example, once; raises `ProblemFileError` naming the place."""
        if any(known is verifier for known in self._accepted_by):
            return
        for example, place in zip(self._examples, self.places, strict=True):
            try:
                verifier.validate(example)
            except VerifierError as error:
                raise ProblemFileError(f"{place}: {error}{_hint(verifier, example.hidden)}") from error
        self._accepted_by.append(verifier)


class RecordReader:
    """Makes examples of records; the arguments are those of the module's description.

    Raises:
        OptionError: a template that names no field by its name, or an argument of another type.
    """

    def __init__(
        self,
        prompt: Template | None = None,
        hidden: Mapping[str, str] | Callable[[Record], Mapping[str, Any]] | None = None,
        gold: Template | None = None,
    ) -> None:
        self._prompt, self._hidden, self._gold = prompt, hidden, gold
        self._shown = {name: _names(name, template) for name, template in (("prompt", prompt), ("gold", gold))}
        if not (hidden is None or callable(hidden) or isinstance(hidden, Mapping)):
            raise OptionError(f"hidden must be a function or a dict of field names, got {hidden!r:.80}")

    def read_all(self, located: Iterable[Located]) -> Records:
        """The examples of a source; raises `ProblemFileError` also for an id that comes twice."""
        examples: dict[str, Example] = {}
        places: dict[str, str] = {}
        for place, id, record in located:
            example = self.read(place, id, record)
            if example.id in examples:
                raise ProblemFileError(f"{place}, field 'id': {example.id!r} is already that of {places[example.id]}")
            examples[example.id], places[example.id] = example, place
        return Records(list(examples.values()), list(places.values()))

    def read(self, place: str, id: str, record: Any) -> Example:
        """The example that a record stands for; raises `ProblemFileError` naming the place and the field."""
        if isinstance(record, Example):
            if self._prompt is not None or self._hidden is not None or self._gold is not None:
                raise ProblemFileError(f"{place}: prompt, hidden and gold are for records, and this is an Example")
            return record
        if not isinstance(record, Mapping):
            raise ProblemFileError(f"{place}: expected an object, got {type(record).__name__}")
        fields: dict[str, Any] = {"id": record.get("id", id), "metadata": record.get("metadata", {})}
        if type(fields["id"]) is int:
            fields["id"] = str(fields["id"])
        fields["prompt"] = self._fill("prompt", self._prompt, record, place)
        if fields["prompt"] is None:
            raise ProblemFileError(
                f"{place}, field 'prompt': missing; write one into every record, or give a template such as "
                'prompt="{question}"'
            )
        fields["hidden"] = self._hidden_data(record, place)
        gold = self._fill("gold", self._gold, record, place)
        if gold is None:
            answer = fields["hidden"].get("answer") if isinstance(fields["hidden"], Mapping) else None
            gold = str(answer) if type(answer) in (str, int, float) else ""
        fields["gold"] = gold
        for name, value in fields.items():
            valid, expected = _FIELDS[name]
            if not valid(value):
                raise ProblemFileError(f"{place}, field {name!r}: expected {expected}, got {value!r:.80}")
        return Example(**fields)

    def _fill(self, name: str, template: Template | None, record: Record, place: str) -> Any:
        """The prompt or the gold answer; None when neither an argument nor the record says anything."""
        if template is None:
            return record.get(name)
        if not isinstance(template, str):
            return _call(name, template, record, place)
        metadata = record.get("metadata", {})
        values = {**metadata, **record} if isinstance(metadata, Mapping) else record
        for field in self._shown[name]:
            if field not in values:
                raise ProblemFileError(f"{place}: {unknown(f'field of the template {name}', field, values)}")
            if values[field] is None:
                raise ProblemFileError(f"{place}, field {field!r}: the template {name} shows it, and it is null")
        return _call(name, template.format_map, values, place)

    def _hidden_data(self, record: Record, place: str) -> Any:
        if isinstance(self._hidden, Mapping):
            for field in self._hidden.values():
                if field not in record:
                    raise ProblemFileError(f"{place}: {unknown('field that hidden names', field, record)}")
            return {name: record[field] for name, field in self._hidden.items()}
        if self._hidden is not None:
            return _call("hidden", self._hidden, record, place)
        shown = self._shown["prompt"] | self._shown["gold"]
        if "hidden" not in record:
            shown = self._shown["prompt"]
            return {name: value for name, value in record.items() if name not in (*_RESERVED, *shown)}
        if not callable(self._prompt) and not callable(self._gold):
            for name in record:
                if name not in _RESERVED and name not in shown:
                    raise ProblemFileError(f"{place}: {unknown('field', name, _RESERVED)}")
        return record["hidden"]


def _names(argument: str, template: Any) -> set[str]:
    """The fields that a template names."""
    if template is None or callable(template):
        return set()
    if not isinstance(template, str):
        raise OptionError(f"{argument} must be a template such as '{{question}}' or a function, got {template!r:.80}")
    try:
        names = set(_fields(template))
    except ValueError as error:
        raise OptionError(f"{argument} is no template: {error}; write {{{{ and }}}} for braces") from error
    for name in sorted(names):
        if "." in name or "[" in name:
            raise OptionError(f"{argument} must name whole fields such as {{question}}, got {{{name:.60}}}")
    if any(not name or name.isdigit() for name in names):
        raise OptionError(f"{argument} must give the names of fields in braces, got {template!r:.80}")
    return names


def _fields(template: str) -> Iterator[str]:
    """The names in braces, those inside format specifications such as `{n:>{width}}` included."""
    for _, name, specification, _ in Formatter().parse(template):
        if name is not None:
            yield name
            yield from _fields(specification or "")


def _hint(verifier: Verifier, hidden: Any) -> str:
    """Which verifier was meant, where tests of programs were left to the one that is there by default."""
    if type(verifier) is not ExactMatch or not isinstance(hidden, Mapping):
        return ""
    for field, name in (("files", "pytest_files"), ("entry", "function_tests"), ("tests", "program_tests")):
        if field in hidden:
            return f"; for tests such as these, name the verifier of the task: verifier={name!r}"
    return ""


def _call(name: str, function: Callable[[Any], Any], record: Any, place: str) -> Any:
    """What a person's function makes of a record; an exception in it is told with the place."""
    try:
        return function(record)
    except Exception as error:
        raise ProblemFileError(f"{place}: {name} cannot be made, {type(error).__name__}: {error}") from error
