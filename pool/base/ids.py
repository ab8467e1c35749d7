"""The names of things: jobs and claims."""

from typing import NamedTuple

from pool.base.errors import UserError

# More than any queue gives out, and few enough that no text costs much to read.
_DIGITS = 9
_INT_DIGITS_MAX = 4300
"""Python's own bound (sys.int_info.default_max_str_digits), as longer texts take quadratic time."""


class JobId(NamedTuple):
    """A job in its schedd's queue; prints as `cluster.proc`."""

    cluster: int
    proc: int

    def __str__(self) -> str:
        return f"{self.cluster}.{self.proc}"

    @classmethod
    def parse(cls, text: str) -> "JobId":
        """Read `12.3`; UserError when the text is anything else."""
        cluster, proc = named_jobs(text) or (0, None)
        if proc is None:
            raise UserError(f"{text!r} is not a job id", expected="CLUSTER.PROC, such as 12.0")
        return cls(cluster, proc)


def is_number(text: str) -> bool:
    """Whether it is digits and nothing else, so that int() takes it."""
    # isdigit() alone is true of superscripts too, which int() refuses, and int() refuses more than so many digits.
    return text.isascii() and text.isdigit() and len(text) <= _INT_DIGITS_MAX


def named_jobs(text: str) -> tuple[int, int | None] | None:
    """The cluster that `12` or `12.3` names, and the proc where it names one; None for any other text."""
    cluster, dot, proc = text.partition(".")
    if not is_number(cluster) or (dot and not is_number(proc)) or max(len(cluster), len(proc)) > _DIGITS:
        return None
    return int(cluster), int(proc) if dot else None


def names_jobs(text: str) -> bool:
    """Whether it looks like a cluster (`12`) or a job (`12.3`)."""
    return named_jobs(text) is not None


class ClaimId(str):
    """A capability: whoever holds it may use the slot. `<startd address>#birth#sequence#secret`.

    Never log one whole; `public()` is the part that may be shown, and `repr` shows no more.
    """

    __slots__ = ()

    def public(self) -> str:
        """The claim's name without its secret: what ads, logs and tools show."""
        return self.rpartition("#")[0] + "#..."

    def digest(self) -> str:
        """What is kept of it where the claim has to be known again: it proves nothing by itself."""
        import hashlib  # costs tools 4 ms, and they hold no claims

        return hashlib.sha256(self.encode("utf-8", "surrogatepass")).hexdigest()

    def with_secret(self, secret: str) -> "ClaimId":
        """Another id of the same claim."""
        return ClaimId(f"{self.rpartition('#')[0]}#{secret}")

    def __repr__(self) -> str:
        return f"ClaimId({self.public()!r})"
