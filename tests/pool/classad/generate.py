"""Random expressions and ads over the whole grammar, from any source of chance."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

INTEGERS = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "-2",
    "5",
    "7",
    "10",
    "60",
    "63",
    "64",
    "65",
    "100",
    "1000",
    "86400",
    "90061",
    "1709210096",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
]
REALS = [
    "0.0",
    "-0.0",
    "0.5",
    "1.0",
    "1.5",
    "-2.5",
    "3.0",
    "2.5",
    "1e3",
    "1e10",
    "1e30",
    "-1e30",
    "1e308",
    "1e-320",
    "0.1",
    "0.2",
    "1E-5",
    "90061.5",
    ".5",
    "12345678.9",
]
STRINGS = [
    '""', '"a"', '"A"', '"b"', '"abc"', '"ABC"', '"abd"', '"a,b,c"', '"a, b ,c"', '"1,2,3"', '"1.5, 2"', '"x y"',
    '"10"', '"9"', '"1.5"', '" 5"', '"12abc"', '"1e3"', '"0x1F"', '"true"', '"False"', '"t"', '"NaN"', '"-INF"',
    '"a@b"', '"slot1@host"', '"@"', '"é"', '"É"', '"\\303\\251"', '"\\n"', '"a\\tb"', '"q\\"q"', '"\\\\"', '"it\'s"',
    '"[x"', '"_"', '"Z"', '"x+1"', '"a b"', '"A=1;B=2"', '"A=1 B=\'x y\'"', '"8.9.10"', '"8.10.1"', '"8.010"', '"a01"',
    '"a1"', '"a001b"', '"%Y-%m-%d %H:%M"', '"%c"', '"%j %U %W %V %u"', '"i"', '"^a"', '"(a)(b)?"', '"a+"', '"[a-c]+"',
    '"."', '"\\\\1x"', '"<"', '">="', '"=="', '"!="', '"is"', '"isnt"', '"2024-02-29T12:34:56Z"', '"1+02:03:04"',
    '"a" "b"',
]  # fmt: skip
TIMES = [
    "absTime(0)", "absTime(86400)", "absTime(5,3600)", 'absTime("2024-02-29T12:34:56-06:00")', 'absTime("2024-01-07")',
    "absTime(1709210096,-21600)", "relTime(0)", "relTime(30)", "relTime(90)", "relTime(90061)", "relTime(-5)",
    'relTime("1:00")', 'relTime("1+00:00:01")', 'relTime("-2:3:4")', "relTime(1.5)", "relTime(-90061.5)",
]  # fmt: skip
NAMES = ["a", "b", "c", "d", "e", "x", "y", "s", "t", "u", "l", "n", "m", "nosuch", "X", "S", "CurrentTimer", "q"]
SCOPES = ["MY", "TARGET", "other", "my", "target", "parent", "self", "n", "l", "m", "root", "toplevel", "left", "right"]
BINARY = [
    "||",
    "&&",
    "|",
    "^",
    "&",
    "==",
    "!=",
    "=?=",
    "=!=",
    "is",
    "isnt",
    "<",
    "<=",
    ">",
    ">=",
    "<<",
    ">>",
    ">>>",
    "+",
    "-",
    "*",
    "/",
    "%",
]
#: Functions, with how many arguments they like.
FUNCTIONS = {
    **dict.fromkeys(["isUndefined", "isError", "isString", "isInteger", "isReal", "isList", "isClassAd", "isBoolean", "isAbstime", "isReltime"], "1"),
    **dict.fromkeys(["int", "real", "string", "bool", "floor", "ceil", "ceiling", "round", "size", "sum", "avg", "min", "max", "toUpper", "toLower"], "1"),
    **dict.fromkeys(["getYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDayOfWeek", "getDays", "getHours", "getMinutes"], "1"),
    **dict.fromkeys(["getSeconds", "splitTime", "interval", "eval", "unparse", "debug", "splitUserName", "splitSlotName"], "1"),
    **dict.fromkeys(["stringListSize", "stringListSum", "stringListAvg", "stringListMin", "stringListMax"], "12"),
    **dict.fromkeys(["stringListMember", "stringListIMember", "stringListsIntersect", "stringListSubsetMatch"], "23"),
    **dict.fromkeys(["member", "identicalMember", "pow", "quantize", "strcmp", "stricmp", "versionCmp", "versionLE", "versionLT"], "2"),
    **dict.fromkeys(["versionGE", "versionGT", "versionEQ", "countMatches", "evalInEachContext"], "2"),
    **dict.fromkeys(["ifThenElse", "anyCompare", "allCompare", "version_in_range"], "3"),
    "absTime": "12", "relTime": "1", "strcat": "0123", "join": "0123", "substr": "23", "split": "12",
    "formatTime": "12", "regexp": "23", "regexpMember": "23", "regexps": "34", "replace": "34",
    "replaceAll": "34", "stringList_regexpMember": "234", "stringListISubsetMatch": "23",
    "argsToList": "12", "listToArgs": "12", "mergeEnvironment": "0123", "envV1ToV2": "1", "userMap": "234",
    "unresolved": "1", "nosuchfunction": "01",
}  # fmt: skip
FUNCTION_NAMES = sorted(FUNCTIONS)
ATTRIBUTES = ["a", "b", "c", "d", "e", "x", "y", "s", "t", "u", "l", "n", "m"]

#: What texts are cooked of.
WORDS = [
    "a", "b", "MY", "TARGET", "x1", "_y", "'q r'", "'it\\'s'", "true", "FALSE", "Undefined", "error", "1", "0", "-1", "2.5", "1e3",
    ".5", "1.", "07", "0x1F", "10K", "1E", "-.5", "9223372036854775808", '"s"', '"a\\"b"', '"\\101"', '"\\n"', '"\\q"', '"a" "b"',
    "f(", "strcat(", "absTime(", 'relTime("1:00")', 'absTime("2024-01-01Z")', 'relTime("x")', "parent", "is", "isnt", "[a=1]",
    "{1,2}", "/*c*/", "//c\n", "Self.", "1 .a", "@", "#", "$", "é", "\\",
]  # fmt: skip
MARKS = [*BINARY, "?", ":", "?:", "(", ")", "[", "]", "{", "}", ",", ";", ".", "=", "!", "~", " "]


class Generator:
    """Texts, drawn from `rng`."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def literal(self) -> str:
        """A literal of any type."""
        kind = self.rng.randrange(12)
        if kind < 4:
            return self.rng.choice(INTEGERS)
        if kind < 6:
            return self.rng.choice(REALS)
        if kind < 9:
            return self.rng.choice(STRINGS)
        return self.rng.choice(["true", "false", "undefined", "error"]) if kind < 11 else self.rng.choice(TIMES)

    def reference(self) -> str:
        """A reference of any scope."""
        rng = self.rng
        kind = rng.randrange(10)
        name = rng.choice(NAMES)
        if kind < 5:
            return name
        if kind < 8:
            return f"{rng.choice(SCOPES)}.{name}"
        return f".{name}" if kind == 8 else f"{rng.choice(SCOPES)}.{rng.choice(SCOPES)}.{name}"

    def expression(self, depth: int) -> str:
        """An expression, at most `depth` levels of it."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            return self.literal() if rng.random() < 0.55 else self.reference()
        kind = rng.randrange(20)
        inner = depth - 1
        if kind < 8:
            return f"{self.expression(inner)} {rng.choice(BINARY)} {self.expression(inner)}"
        if kind < 9:
            return f"{rng.choice('-+!~')}{self.expression(inner)}"
        if kind < 10:
            return f"{self.expression(inner)} ? {self.expression(inner)} : {self.expression(inner)}"
        if kind < 11:
            return f"({self.expression(inner)}) ?: ({self.expression(inner)})"
        if kind < 13:
            return f"({self.expression(inner)})"
        if kind < 14:
            return self.list(inner)
        if kind < 15:
            return self.ad(inner)
        if kind < 16:
            index = rng.choice(["0", "1", "2", "-1", '"a"', '"X"', self.expression(inner)])
            return f"{rng.choice(['l', 'n', 'm', self.list(inner), self.ad(inner)])}[{index}]"
        if kind < 17:
            return f"{rng.choice(['l', 'n', 'm', self.list(inner), self.ad(inner)])}.{rng.choice(NAMES)}"
        return self.call(inner)

    def call(self, depth: int) -> str:
        """A function call; mostly with a right number of arguments."""
        rng = self.rng
        name = rng.choice(FUNCTION_NAMES)
        if name == "unresolved":
            # Of a name that leads elsewhere, the library goes on evaluating in the place where it ended up.
            return f"unresolved({rng.choice(ATTRIBUTES)})"
        count = int(rng.choice(FUNCTIONS[name])) if rng.random() < 0.95 else rng.randrange(5)
        arguments = [self.expression(depth) for _ in range(count)]
        if name == "relTime" and arguments and arguments[0].startswith('"'):
            # The library takes a bad literal for none in some places, such as the middle of a ternary.
            arguments[0] = rng.choice(TIMES)
        if name in ("countMatches", "evalInEachContext") and arguments:
            # A bare name may lead elsewhere, and the rest is then evaluated in the place where it ended up.
            arguments[0] = f"({arguments[0]})"
        if name in ("absTime", "formatTime", "splitTime"):
            # Now is no good question, and beyond 32-bit years the library shows what was in memory.
            arguments[:1] = [rng.choice([*TIMES, "1709210096", "90061.5", "n", "a", "undefined", "nosuch"])]
        return f"{name}({','.join(arguments)})"

    def soup(self) -> str:
        """Words and marks in any order: few are an expression."""
        rng = self.rng
        between = rng.choice(["", " ", " "])
        count = rng.randrange(1, 9)
        return between.join(rng.choice(WORDS if rng.random() < 0.55 else MARKS) for _ in range(count))

    def list(self, depth: int) -> str:
        """A list."""
        return "{" + ",".join(self.expression(depth) for _ in range(self.rng.randrange(4))) + "}"

    def ad(self, depth: int, names: Sequence[str] = ATTRIBUTES, least: int = 0) -> str:
        """An ad with some of `names`."""
        rng = self.rng
        chosen = rng.sample(names, rng.randint(least, min(len(names), least + 4)))
        return "[" + "; ".join(f"{name} = {self.expression(depth)}" for name in chosen) + "]"
