"""The documents of the task `Extraction`: texts with slots, and what fills the slots.

    "{customer.name:person} buys {quantity:2-40} {item:goods}."

A slot is `{field:filling}`. The field's name, with dots for objects within objects, is its place in the JSON; the
filling is a range of whole numbers or a key of `FILLINGS`, which give a text and the value it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, NamedTuple

from llm_envs.tasks.generated import listed

Filling = tuple[str, Any]
"""What stands in the text, and the JSON value it means."""


class Document(NamedTuple):
    """A kind of document.

    Attributes:
        texts: ways to write it, all with the same slots.
        optional: sentences that may be missing, and their fields with them.
    """

    texts: tuple[str, ...]
    optional: tuple[str, ...] = ()


_FIRST = listed("Ada Ben Cleo Dan Ela Finn Gina Hugo Ida Jon Kira Leo Mia Noah Olga Paul Rosa Sam Tara Udo Vera Will")
_LAST = listed(
    "Stone Wood Hill Marsh Brook Field Lake Ward Cole Frost Hale Lane Moss North Park Reed Shaw Vale West Young"
)
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "first_name": _FIRST,
    "city": listed("Oslo Lima Cairo Turin Porto Ghent Kyoto Quito Dakar Perth Malmo Basel Split Brno Graz Leeds"),
    "goods": listed("lamps drums kettles mirrors baskets clocks ladders bells chairs ropes blankets candles"),
    "weekday": listed("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
    "topic": tuple(
        f"{a} {b}" for a in ("Budget", "Team", "Safety", "Sales", "Data") for b in ("review", "meeting", "talk")
    ),
    "level": ("INFO", "WARNING", "ERROR", "DEBUG"),
    "service": listed("mailer indexer gateway billing cache scheduler importer archive"),
    "compass": listed("north south east west northeast southwest"),
    "company": tuple(
        f"{a} {b}" for a in ("Blue", "Delta", "Nova", "Iron", "Maple") for b in ("Works", "Foods", "Lines")
    ),
    "job": listed("baker gardener driver nurse cook welder librarian tailor plumber"),
    "color": listed("red blue green black white yellow brown grey"),
    "device": listed("phone laptop printer camera radio watch tablet heater"),
    "fault": ("broken screen", "flat battery", "loose cable", "stuck button", "noisy fan"),
    "subject": listed("Biology History Algebra Latin Music Physics Geography Chemistry"),
    "payment": ("card", "cash", "invoice", "transfer"),
    "dish": tuple(f"{a} {b}" for a in ("Lentil", "Onion", "Pea", "Carrot") for b in ("soup", "stew", "pie", "salad")),
    "ingredient": listed("flour sugar butter onions lentils carrots rice peas cream oats"),
    "title": tuple(
        f"The {a} {b}" for a in ("Last", "Silent", "Green", "Lost") for b in ("Bridge", "Winter", "Garden", "Key")
    ),
}


def _price(rng: Random) -> Filling:
    # Never a whole number, which JSON writes like an integer.
    cents = rng.randint(1, 199) * 50 + rng.choice((5, 20, 25, 45))
    return f"{cents / 100:.2f}", cents / 100


def _same(text: str) -> Filling:
    return text, text


def _choice(words: tuple[str, ...], rng: Random) -> Filling:
    return _same(rng.choice(words))


def _flag(yes: str, no: str) -> Callable[[Random], Filling]:
    def fill(rng: Random) -> Filling:
        value = rng.random() < 0.5
        return (yes if value else no), value

    return fill


def _person(rng: Random) -> str:
    return f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"


def _time(rng: Random) -> str:
    return f"{rng.randint(7, 21):02}:{rng.randrange(0, 60, 5):02}"


def _joined(texts: list[str]) -> str:
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def _listed(choice: str, unit: str, name: str, number: str, low: int, high: int) -> Callable[[Random], Filling]:
    """Two or three of "12 lamps" or "12 g of flour": a list of objects with a name and a number."""

    def fill(rng: Random) -> Filling:
        names = rng.sample(_CHOICES[choice], rng.choice((2, 2, 3)))
        rows = [{name: thing, number: rng.randint(low, high)} for thing in names]
        return _joined([f"{row[number]}{unit} {row[name]}" for row in rows]), rows

    return fill


def _people(rng: Random) -> Filling:
    people = [f"{first} {rng.choice(_LAST)}" for first in rng.sample(_FIRST, rng.choice((2, 2, 3)))]
    return _joined(people), people


def _results(rng: Random) -> Filling:
    rows = [{"name": name, "points": rng.randint(5, 99)} for name in rng.sample(_FIRST, rng.choice((2, 3)))]
    return _joined([f"{row['name']} with {row['points']} points" for row in rows]), rows


FILLINGS: dict[str, Callable[[Random], Filling]] = {
    **{name: partial(_choice, words) for name, words in _CHOICES.items()},
    "person": lambda rng: _same(_person(rng)),
    "time": lambda rng: _same(_time(rng)),
    "date": lambda rng: _same(f"{rng.randint(2020, 2039)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"),
    "phone": lambda rng: _same(f"0{rng.randint(10, 99)}-{rng.randint(10000, 99999)}"),
    "email": lambda rng: _same(f"{rng.choice(_FIRST).lower()}.{rng.choice(_LAST).lower()}@example.org"),
    "code": lambda rng: _same(f"{rng.choice('ABCDEFGH')}{rng.choice('KLMNPRST')}{rng.randint(100, 9999)}"),
    "price": _price,
    "paid": _flag("paid", "not paid"),
    "furnished": _flag("furnished", "unfurnished"),
    "passed": _flag("passed", "failed"),
    "goods_list": _listed("goods", "", "item", "quantity", 2, 60),
    "ingredient_list": _listed("ingredient", " g of", "name", "grams", 5, 900),
    "people": _people,
    "results": _results,
}

FLAT: dict[str, Document] = {
    "order": Document(
        (
            "Order {order:1000-9999}: {customer:person} buys {quantity:2-60} {item:goods} at {price:price} euros each.",
            "{customer:person} ordered {quantity:2-60} {item:goods} for {price:price} euros apiece. The order is "
            "number {order:1000-9999}.",
        ),
    ),
    "meeting": Document(
        (
            "{title:topic} on {day:weekday} at {time:time} in room {room:1-400}, led by {host:person}.",
            "{host:person} invites you to the {title:topic}: {day:weekday}, {time:time}, room {room:1-400}.",
        ),
    ),
    "contact": Document(
        (
            "{name:person} is {age:18-90} years old and lives in {city:city}. Phone: {phone:phone}.",
            "You reach {name:person} ({age:18-90}, from {city:city}) at {phone:phone}.",
        ),
    ),
    "flight": Document(
        (
            "Flight {flight:code} from {origin:city} to {destination:city} leaves at {departure:time} from gate "
            "{gate:1-60}.",
            "Gate {gate:1-60}, {departure:time}: flight {flight:code} to {destination:city}, coming from "
            "{origin:city}.",
        ),
    ),
    "log": Document(
        (
            "{date:date} {time:time} {level:level} {service:service}: done in {milliseconds:5-9000} ms",
            "[{level:level}] {service:service} took {milliseconds:5-9000} ms ({date:date}, {time:time})",
        ),
    ),
    "weather": Document(
        (
            "{city:city}, {day:weekday}: {temperature:1-38} degrees, wind from the {direction:compass} at {wind:2-90} "
            "km/h.",
            "On {day:weekday} a wind of {wind:2-90} km/h from the {direction:compass} brings {temperature:1-38} "
            "degrees to {city:city}.",
        ),
    ),
    "job": Document(
        (
            "{company:company} in {city:city} looks for a {job:job}: {hours:10-40} hours a week, {wage:price} euros an "
            "hour.",
            "Wanted in {city:city}: {job:job}, {hours:10-40} hours a week. {company:company} pays {wage:price} euros "
            "an hour.",
        ),
    ),
    "parcel": Document(
        (
            "Parcel {parcel:code} of {kilograms:price} kg goes to {receiver:person} in {city:city}. Postage: "
            "{postage_paid:paid}.",
            "For {receiver:person}, {city:city}: parcel {parcel:code}, {kilograms:price} kg, postage "
            "{postage_paid:paid}.",
        ),
    ),
    "rental": Document(
        (
            "{tenant:person} rents {rooms:2-9} rooms in {city:city} for {rent:300-2900} euros from {start:date}. They "
            "are {furnished:furnished}.",
            "From {start:date}: {rooms:2-9} {furnished:furnished} rooms in {city:city}, {rent:300-2900} euros, tenant "
            "{tenant:person}.",
        ),
    ),
    "match": Document(
        (
            "{home:city} beat {guest:city} {home_goals:4-9} to {guest_goals:1-3} on {date:date} before "
            "{spectators:200-90000} people.",
            "{date:date}, {spectators:200-90000} spectators: {home:city} against {guest:city} ended {home_goals:4-9} "
            "to {guest_goals:1-3}.",
        ),
    ),
}

FLAT_TEST: dict[str, Document] = {
    "repair": Document(
        (
            "Ticket {ticket:100-9999}: {customer:person} brings a {device:device} with a {fault:fault}. The bill is "
            "{price:price} euros, {paid:paid}.",
        ),
    ),
    "exam": Document(
        ("{student:person} {passed:passed} in {subject:subject} with {points:5-99} points on {date:date}.",),
    ),
    "car": Document(
        (
            "For sale in {city:city}: {color:color} car, {kilometers:900-240000} km, built in {year:1990-2024}, "
            "{price:900-30000} euros, call {phone:phone}.",
        ),
    ),
}

NESTED: dict[str, Document] = {
    "orders": Document(
        (
            "Order {order:1000-9999} by {customer.name:person} from {customer.city:city}: {items:goods_list}.",
            "{customer.name:person} ({customer.city:city}) orders {items:goods_list}. Order number: {order:1000-9999}.",
        ),
        (" To be delivered on {delivery:weekday}.", " Payment by {payment:payment}."),
    ),
    "conference": Document(
        (
            "{title:topic}, {when.day:weekday} at {when.time:time}. Speakers: {speakers:people}.",
            "On {when.day:weekday} at {when.time:time} {speakers:people} speak at the {title:topic}.",
        ),
        (" Room {room:1-400}.", " Questions to {contact:email}."),
    ),
    "trip": Document(
        (
            "Train {train:code} leaves {from.city:city} at {from.time:time} and reaches {to.city:city} at "
            "{to.time:time}.",
            "To {to.city:city} (arrival {to.time:time}): train {train:code} from {from.city:city} at {from.time:time}.",
        ),
        (" Seat {seat:1-120}.", " Fare: {fare:price} euros."),
    ),
    "race": Document(
        (
            "Results of race {race:1-900} in {city:city}: {results:results}.",
            "{city:city}, race {race:1-900}: {results:results}.",
        ),
        (" Held on {date:date}.", " Judge: {judge:person}."),
    ),
    "team": Document(
        (
            "{company:company} in {city:city} has hired {people:people}. {lead.name:person} ({lead.email:email}) leads "
            "them.",
            "{lead.name:person}, mail {lead.email:email}, leads {people:people} at {company:company}, {city:city}.",
        ),
        (" They start on {start:date}.", " The wage is {wage:price} euros an hour."),
    ),
    "stock": Document(
        (
            "Store {store.number:1-99} in {store.city:city} has {stock:goods_list}.",
            "In stock: {stock:goods_list} (store {store.number:1-99}, {store.city:city}).",
        ),
        (" Counted by {counted_by:person}.", " Next delivery: {delivery:weekday}."),
    ),
}

NESTED_TEST: dict[str, Document] = {
    "recipe": Document(
        ("{dish:dish} for {servings:2-12}: {ingredients:ingredient_list}. Cook for {minutes:5-120} minutes.",),
        (" Recipe by {author:person}.", " A portion costs {cost:price} euros."),
    ),
    "loan": Document(
        ("{reader.name:person}, card {reader.card:code}, borrows {book.title:title} ({book.year:1900-2024}).",),
        (" Due on {due:date}.", " Fee: {fee:price} euros."),
    ),
}
