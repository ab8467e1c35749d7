"""Expressions that are meant to cost too much: a table of shapes, each made larger by a number."""

from __future__ import annotations

from collections.abc import Callable

from pool.classad import ClassAd, expr

A = "a" * 40 + "X"
REGEXPS = ("(a|aa)+$", "(?:a|a)*$", "(a+a+)+b", "(?:.*a){12}b", "(?=(a|aa)*$)b")


def _chain(count: int, first: object, link: str, last: str = "A#") -> ClassAd:
    """A0 is `first`, and each further attribute is `link` of the one before, which is called `{0}`."""
    ad = ClassAd({"A0": first})
    for i in range(1, count + 1):
        ad[f"A{i}"] = expr(link.format(f"A{i - 1}"))
    ad["Bomb"] = expr(last.replace("#", str(count)))
    return ad


def _one(text: str, **others: object) -> ClassAd:
    return ClassAd({**others, "Bomb": expr(text[:65_000])})


def _many(part: str, count: int, between: str = " || ", **others: object) -> ClassAd:
    parts = [part.replace("#", str(i)) for i in range(min(count, 60_000 // (len(part) + 12)))]
    return _one(between.join(parts), **others)


SHAPES: dict[str, Callable[[int], ClassAd]] = {
    "a string that doubles": lambda n: _chain(n, "x" * 50, "strcat({0}, {0})"),
    "a list that doubles": lambda n: _chain(n, 1, "{{ {0}, {0} }}"),
    "a list that doubles, as text": lambda n: _chain(n, 1, "string({{ {0}, {0} }})"),
    "joined lists": lambda n: _chain(n, "y" * 50, 'join(",", {{ {0}, {0}, {0} }})'),
    "replaceAll that grows": lambda n: _chain(n, "z" * 50, 'replaceAll("z", {0}, "zz")'),
    "regexps grow": lambda n: _chain(n, "z" * 50, 'regexps("(.+)", {0}, "\\\\1\\\\1", "g")'),
    "eval in eval": lambda n: _chain(n, 1, 'eval("{0} + {0}") + eval("{0} - {0}")'),
    "eval of text that grows": lambda n: _chain(n, "1+1", 'strcat("(", {0}, ")+(", {0}, ")")', "eval(A#)"),
    "a context in each context": lambda n: _chain(n, 1, "evalInEachContext({0}, {{ [b=1], [b=2], [b=3] }})"),
    "contexts in contexts": lambda n: _one(
        "countMatches(" * min(n, 30) + "b > 0" + ", L)" * min(n, 30), L=expr("{" + "[b=1]," * 60 + "[b=2]}")
    ),
    "many members": lambda n: _many("member(#, L)", 100 * n, L=list(range(50_000))),
    "anyCompare": lambda n: _many('anyCompare("<", L, #-1)', 100 * n, L=list(range(50_000))),
    "sums": lambda n: _many("sum(L) + avg(L) + max(L)", 100 * n, " + ", L=[1.5] * 50_000),
    "long lists of lists": lambda n: _many("size(string(L)) > #", 100 * n, L=[[1, 2, "x"]] * 10_000),
    "split": lambda n: _many("size(split(S)) > 1000000", 100 * n, S="a," * 100_000),
    "string lists": lambda n: _many('stringListMember("#x", S)', 100 * n, S="a," * 100_000),
    "string list sums": lambda n: _many("stringListSum(S) < 0", 100 * n, S="1," * 100_000),
    "delimiters": lambda n: _many('stringListSize("a#", S) < 0', 100 * n, S="".join(map(chr, range(256, 50_000)))),
    "versions": lambda n: _many("versionGT(S, S)", 100 * n, S="1." * 200_000),
    "long strings compared": lambda n: _many("S > T", 1_000 * n, S="é" * 400_000, T="É" * 400_000),
    "long strings identical": lambda n: _many("S =?= T", 1_000 * n, S="é" * 400_000 + "x", T="é" * 400_000 + "y"),
    "member of long strings": lambda n: _one(
        "member(T, {" + "S," * min(1_000 * n, 30_000) + "S})", S="s" * 400_000 + "x", T="s" * 400_000 + "y"
    ),
    "arguments": lambda n: _many("size(argsToList(S)) < 0", 100 * n, S="abc" * 100_000),
    "quotes": lambda n: _many("size(listToArgs({S})) < 0", 100 * n, S="' '" * 50_000),
    "environments": lambda n: _many("size(mergeEnvironment(S, S)) < 0", 100 * n, S="a='b'" * 50_000),
    "formats": lambda n: _many("size(formatTime(0, S)) < 0", 100 * n, S="%c" * 200_000),
    "numbers in text": lambda n: _many("int(S) == #", 100 * n, S="9" * 400_000),
    "unparse": lambda n: _many("size(unparse(L)) < 0", 100 * n, L=expr("{" + "1," * 20_000 + "1}")),
    "unresolved": lambda n: _many("unresolved(L) == 3", 100 * n, L=expr("{" + "x#,".replace("#", "1") * 15_000 + "1}")),
    "regexps": lambda n: _many(f'!isError(regexp("{REGEXPS[n % 5]}|#", "{A}"))', n),
    "a regexp for each member": lambda n: _one(f'regexpMember("{REGEXPS[n % 5]}", L)', L=[A * 10] * 10_000),
    "a regexp for each item": lambda n: _one('stringList_regexpMember("(a|aa)+$", S)', S=f"{A}," * 10_000),
    "patterns": lambda n: _many('regexp(strcat("(?:a?b?|#)", "{#00}"), "a")', 20 * n),
    "large patterns": lambda n: _many("regexp(strcat(P, #), Q)", 20 * n, P="(a|b?|c*)+" * 490, Q="b" * 3_000),
    "patterns written out": lambda n: _many('regexp("(?:(?:a?b?){99}){99}#", "a")', n),
    "matches of nothing": lambda n: _many('replaceAll("", S, "abc") == "#"', 20 * n, S="x" * 100_000),
    "ternaries": lambda n: _chain(n * 10, 1, "({0} ? {0} : 0) + ({0} ? 1 : {0})"),
    "through the other scope": lambda n: _chain(n * 5, 1, "MY.{0} + my.{0} + self.{0} + root.{0} + toplevel.{0}"),
    "ads in ads": lambda n: _chain(min(n, 60), 1, "[ x = {0}; y = {0}; z = [ u = {0} ] ].z.u + [ v = {0} ].v"),
    "circles": lambda n: ClassAd(
        {**{f"C{i}": expr(" + ".join(f"C{j}" for j in range(min(n, 60)) if j != i) or "1") for i in range(n)}}
        | {"Bomb": expr("C0 + C1")}
    ),
    "wide sums": lambda n: _many("x#", 1_000 * n, " + "),
}
