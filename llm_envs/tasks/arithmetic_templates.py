"""The texts of the task `Arithmetic`: word problems with slots, and the steps that solve them.

    "gift": ("{P} has {a:2-60} {T}. {Q} gives {P} {b:2-60} more. ...", "a + b")

* `{a:2-60}` is a number in a range, `{a:10-90/5}` a multiple of 5 in it, `{a:0.5-9.5/0.5}` a decimal; a later `{a}` is
  the same number. `{c:toy,lamp}` is one of these words. `{P}` and `{Q}` are names, `{T}` things that can be counted,
  `{S}` a kind of shop.
* Steps are separated by ";". Each is `left operator right`, where a side is a slot, a number, or `r1`, `r2`, ...: the
  result of the first step, of the second, and so on. The last result is the answer. "//" is a division that must come
  out even also where decimals are allowed.

A draw in which a result is not positive, or does not fit the level (whole, or a short decimal), is thrown away.
"""

from llm_envs.tasks.generated import listed

NAMES = listed(
    "Ada Ben Cleo Dan Ela Finn Gina Hugo Ida Jon Kira Leo Mia Noah Olga Paul Rosa Sam Tara Udo Vera Will Yara Zoe Amir "
    "Bea Carl Dora Emil Fay"
)
THINGS = listed(
    "apples stickers pencils marbles coins stamps cards shells books buttons cookies plums ribbons balloons beads nuts "
    "postcards candles tickets flowers"
)
SHOPS = listed("bakery bookshop kiosk museum cinema florist market cafe library toyshop")

ONE_STEP: dict[str, tuple[str, str]] = {
    "gift": ("{P} has {a:2-60} {T}. {Q} gives {P} {b:2-60} more. How many {T} does {P} have now?", "a + b"),
    "two_owners": ("{P} has {a:5-80} {T} and {Q} has {b:5-80}. How many {T} do they have together?", "a + b"),
    "bus_in": ("A bus carries {a:5-60} people. At the next stop {b:2-40} people get on. How many are in it?", "a + b"),
    "pages_read": ("{P} read {a:10-90} pages on Monday and {b:10-90} on Tuesday. How many pages in all?", "a + b"),
    "before": ("After giving away {a:5-60} {T}, {P} has {b:5-60} left. How many {T} were there at first?", "a + b"),
    "older": ("{P} is {a:4-50} years old. {Q} is {b:3-40} years older. How old is {Q}?", "a + b"),
    "eaten": ("{P} has {a:20-99} {T} and loses {b:2-60} of them. How many {T} are left?", "a - b"),
    "difference": ("{P} collected {a:20-99} {T}, {Q} only {b:2-70}. How many more {T} did {P} collect?", "a - b"),
    "still_needed": ("{P} wants {a:30-99} {T} and has {b:2-80}. How many {T} are missing?", "a - b"),
    "bus_out": ("A train carries {a:40-150} people. At a station {b:5-60} get off. How many stay in it?", "a - b"),
    "change": ("{P} pays for a {c:toy,lamp,cap,book,pen} of {b:3-48} dollars with {a:50-99} dollars. How many dollars "
               "come back?", "a - b"),
    "cooler": ("At noon it is {a:15-60} degrees. By night it falls by {b:2-50}. How many degrees is it at "
               "night?", "a - b"),
    "packs": ("A pack holds {a:3-40} {T}. {P} buys {b:2-30} packs. How many {T} is that?", "a * b"),
    "price": ("At the {S} one ticket costs {a:3-40} dollars. How many dollars do {b:2-30} tickets cost?", "a * b"),
    "rows": ("A hall has {a:4-40} rows of {b:4-30} seats. How many seats are there?", "a * b"),
    "wage": ("{P} earns {a:8-40} dollars an hour. How many dollars are earned in {b:2-30} hours?", "a * b"),
    "speed": ("A car drives {a:30-120} kilometers an hour. How far, in kilometers, does it get in {b:2-12} "
              "hours?", "a * b"),
    "daily": ("{P} draws {a:2-30} pictures a day. How many pictures are drawn in {b:3-40} days?", "a * b"),
    "shared": ("{a:6-900} {T} are shared equally by {b:2-25} children. How many does each child get?", "a / b"),
    "boxes": ("{P} puts {a:12-900} {T} into boxes of {b:3-30}. How many boxes are filled?", "a / b"),
    "unit_price": ("{b:2-25} equal {T} cost {a:6-900} dollars. How many dollars does one cost?", "a / b"),
    "pace": ("A machine makes {a:20-900} screws in {b:2-30} minutes. How many screws does it make in a "
             "minute?", "a / b"),
    "teams": ("{a:12-700} pupils form teams of {b:3-28}. How many teams are there?", "a / b"),
    "travel_time": ("A ship sails {b:8-40} kilometers an hour. How many hours does it need for {a:40-990} "
                    "kilometers?", "a / b"),
}  # fmt: skip

ONE_STEP_TEST: dict[str, tuple[str, str]] = {
    "shelf": ("One shelf holds {a:5-70} books, another {b:5-70}. How many books are on both?", "a + b"),
    "rope": ("{P} cuts {b:2-60} meters off a rope of {a:30-99} meters. How many meters remain?", "a - b"),
    "garden": ("A garden has {a:4-60} beds with {b:3-40} roses each. How many roses grow in it?", "a * b"),
    "stairs": ("{P} climbs {a:20-900} steps in {b:2-25} equal flights. How many steps has a flight?", "a / b"),
}  # fmt: skip

STEPS: dict[str, tuple[str, str]] = {
    "gain_lose": ("{P} has {a:10-70} {T}, gets {b:5-60} more and gives away {c:2-60}. How many are "
                  "left?", "a + b; r1 - c"),
    "bus_twice": ("A bus carries {a:20-70} people. {b:2-40} get off and {c:2-40} get on. How many are in "
                  "it?", "a - b; r1 + c"),
    "packs_plus": ("{P} buys {a:2-15} packs of {b:3-20} {T} and finds {c:2-40} more. How many {T} is "
                   "that?", "a * b; r1 + c"),
    "packs_minus": ("{P} buys {a:2-15} packs of {b:3-20} {T} and loses {c:2-40}. How many {T} are "
                    "left?", "a * b; r1 - c"),
    "change_many": ("{P} buys {a:2-12} {T} at {b:2-12} dollars each and pays with {c:20-150} dollars. How many dollars "
                    "come back?", "a * b; c - r1"),
    "two_goods": ("{a:2-12} {T} cost {b:2-12} dollars each, and one basket costs {c:5-40} dollars. How many dollars is "
                  "it in all?", "a * b; r1 + c"),
    "two_prices": ("At the {S} {P} buys {a:2-12} tickets at {b:3-15} dollars and {c:2-12} at {d:3-15} dollars. How "
                   "many dollars is that?", "a * b; c * d; r1 + r2"),
    "join_share": ("{P} has {a:4-60} {T} and {Q} has {b:4-60}. They give them all to {c:2-9} friends, equally many to "
                   "each. How many does each friend get?", "a + b; r1 / c"),
    "left_share": ("Of {a:20-120} {T} {P} keeps {b:2-60} and shares the rest equally among {c:2-9} friends. How many "
                   "does each friend get?", "a - b; r1 / c"),
    "twice_as": ("{P} has {a:3-60} {T}. {Q} has {b:2-9} times as many. How many do they have "
                 "together?", "a * b; r1 + a"),
    "fewer_total": ("{P} has {a:20-90} {T}, {Q} has {b:2-60} fewer. How many do they have together?", "a - b; r1 + a"),
    "older_sum": ("{P} is {a:4-50} years old and {Q} is {b:2-40} years older. How old are they "
                  "together?", "a + b; r1 + a"),
    "in_years": ("{P} is {a:4-50} years old and {Q} is {b:3-40} years younger than {P}. How old will {Q} be in "
                 "{c:2-30} years?", "a - b; r1 + c"),
    "minutes": ("A film starts {a:5-55} minutes after {b:1-9} o'clock, lasts {c:50-170} minutes and has a break of "
                "{d:5-30} minutes. How many minutes after {b} o'clock does it end?", "a + c; r1 + d"),
    "lesson": ("{P} practises {a:10-55} minutes a day for {b:2-14} days and {c:10-90} minutes on one more day. How "
               "many minutes is that?", "a * b; r1 + c"),
    "hours_minutes": ("A walk takes {a:2-9} hours and {b:5-55} minutes, a rest {c:5-50} minutes. How many minutes is "
                      "that in all?", "a * 60; r1 + b; r2 + c"),
    "two_speeds": ("A car drives {a:2-8} hours at {b:30-110} kilometers an hour and {c:2-8} hours at {d:30-110}. How "
                   "many kilometers is that?", "a * b; c * d; r1 + r2"),
    "trip_left": ("A trip is {c:200-990} kilometers long. {P} rides {a:2-9} hours at {b:10-90} kilometers an hour. How "
                  "many kilometers remain?", "a * b; c - r1"),
    "saving": ("{P} saves {a:3-30} dollars a week for {b:3-20} weeks and then spends {c:5-90} dollars. How many "
               "dollars are left?", "a * b; r1 - c"),
    "wage_bonus": ("{P} works {a:3-40} hours at {b:9-30} dollars an hour and gets a bonus of {c:10-99} dollars. How "
                   "many dollars is that?", "a * b; r1 + c"),
    "fraction": ("{P} has {a:12-300} {T} and gives one in every {b:2-9} of them to {Q}. How many does {P} "
                 "keep?", "a / b; a - r1"),
    "scaled": ("{a:2-9} boxes hold {b:12-300} {T}. How many {T} do {c:2-15} such boxes hold?", "b / a; r1 * c"),
    "fence": ("A field is {a:5-60} meters long and {b:4-50} meters wide. How many meters of fence go around "
              "it?", "a + b; r1 * 2"),
    "shelves": ("{a:2-9} shelves hold {b:6-30} books each; {c:2-40} books are lent out and {d:2-30} new ones come. How "
                "many books are there?", "a * b; r1 - c; r2 + d"),
    "eggs": ("A farm has {a:3-20} hens that lay {b:3-7} eggs a week each. In {c:2-6} weeks, how many eggs is "
             "that?", "a * b; r1 * c"),
    "price_drop": ("A lamp costs {a:30-99} dollars. It becomes {b:3-25} dollars cheaper. How many dollars do {c:2-9} "
                   "lamps cost now?", "a - b; r1 * c"),
}  # fmt: skip

STEPS_TEST: dict[str, tuple[str, str]] = {
    "tank": ("A tank holds {a:50-200} liters. {b:2-9} buckets of {c:3-15} liters are taken out. How many liters "
             "remain?", "b * c; a - r1"),
    "choir": ("A choir stands in {a:3-12} rows of {b:4-15}. {c:2-20} singers leave and {d:2-20} come. How many singers "
              "are there?", "a * b; r1 - c; r2 + d"),
    "printer": ("A printer makes {a:5-40} pages a minute. {P} needs {b:3-30} copies of {c:4-20} pages. How many "
                "minutes does it take?", "b * c; r1 / a"),
    "bill": ("{a:2-9} friends share a bill of {b:20-200} dollars and a tip of {c:4-40} dollars. How many dollars does "
             "each pay?", "b + c; r1 / a"),
}  # fmt: skip

DECIMALS: dict[str, tuple[str, str]] = {
    "reduced": ("A {c:coat,bike,desk,tent,phone} costs {a:20-400} dollars and becomes {b:5-90/5} percent cheaper. How "
                "many dollars does it cost now?", "a * b; r1 / 100; a - r2"),
    "tax": ("A {c:meal,room,tour,ticket} costs {a:10-300} dollars without a tax of {b:4-25} percent. How many dollars "
            "does it cost with the tax?", "a * b; r1 / 100; a + r2"),
    "percent_of": ("{b:5-95/5} percent of {a:20-600} guests order soup. How many guests is that?", "a * b; r1 // 100"),
    "what_percent": ("{P} has {a:3-190} red and {b:3-190} blue {T}. What percent of the {T} are "
                     "red?", "a + b; a * 100; r2 / r1"),
    "prices": ("{P} buys {a:2-15} {T} at {b:0.25-9.95/0.05} dollars each. How many dollars is that?", "a * b"),
    "coins_back": ("{P} buys a book for {b:1.05-18.95/0.05} dollars and pays with {a:20-50/10} dollars. How many "
                   "dollars come back?", "a - b"),
    "two_weights": ("A bag weighs {a:0.5-20/0.1} kilograms, another {b:0.5-20/0.1}. How many kilograms do both "
                    "weigh?", "a + b"),
    "weight_left": ("From {a:10-60/0.5} kilograms of flour a baker uses {b:0.5-30/0.1}. How many kilograms are "
                    "left?", "a - b"),
    "average": ("{P} jumps {a:1-6/0.1} meters, then {b:1-6/0.1} meters. What is the average in "
                "meters?", "a + b; r1 / 2"),
    "fuel": ("A car uses {a:4-12/0.1} liters for 100 kilometers. How many liters does it use for "
             "{b:50-900/50}?", "a * b; r1 / 100"),
    "cloth": ("A roll of {a:10-90/0.5} meters is cut into {b:2-20} equal pieces. How many meters long is a "
              "piece?", "a / b"),
    "interest": ("{P} puts {a:100-3000/50} dollars into a bank at {b:1-9/0.5} percent a year. How many dollars of "
                 "interest does a year bring?", "a * b; r1 / 100"),
    "ribbon": ("{P} needs {a:2-20} ribbons of {b:0.2-3/0.05} meters and has {c:40-60/0.5} meters. How many meters "
               "remain?", "a * b; c - r1"),
    "mixed_cart": ("{P} buys {a:2-9} {T} at {b:0.2-4/0.1} dollars and a bag for {c:0.5-9/0.5} dollars. How many "
                   "dollars is it in all?", "a * b; r1 + c"),
}  # fmt: skip

DECIMALS_TEST: dict[str, tuple[str, str]] = {
    "raise": ("{P} earns {a:10-90} dollars an hour and gets {b:2-50} percent more. How many dollars an hour is it "
              "now?", "a * b; r1 / 100; a + r2"),
    "juice": ("{a:2-60} bottles hold {b:0.2-2/0.05} liters each. How many liters is that?", "a * b"),
    "voters": ("{b:5-95/5} percent of {a:40-2000/10} members vote. How many members do "
               "not?", "a * b; r1 // 100; a - r2"),
}  # fmt: skip
