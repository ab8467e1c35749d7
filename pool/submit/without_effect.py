"""Commands that are known, and kept in the job's ad, and that do nothing here: each draws a warning at submission."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pool.submit.commands import COMMANDS


class Idle(NamedTuple):
    """Why a command does nothing."""

    why: str
    fine: str = ""
    """The value, in lower case, that asks for what is done anyway."""


_STANDARD: Final = Idle("it belongs to the standard universe")
_TOOL: Final = Idle("no program is started beside the job")
_TOKENS: Final = Idle("no token or credential goes along with the job", "false")
_MANIFEST: Final = Idle("no lists of the sandbox's files are made", "false")

WITHOUT_EFFECT: Final[Mapping[str, Idle]] = {
    "manifest": _MANIFEST,
    "manifest_dir": _MANIFEST,
    "container_is_common": Idle("each job is sent its own copy of the image", "false"),
    "load_profile": Idle("it is for Windows", "false"),
    "output_directory": Idle("output goes to initialdir; transfer_output_remaps and output_destination change that"),
    "starter_debug": Idle("the starter has one log for all jobs of its slot"),
    "starter_log": Idle("the starter has one log for all jobs of its slot"),
    "dont_encrypt_input_files": Idle("all that moves between hosts is encrypted"),
    "dont_encrypt_output_files": Idle("all that moves between hosts is encrypted"),
    "use_oauth_services": _TOKENS,
    "useoauthservices": _TOKENS,
    "use_scitokens": _TOKENS,
    "use_scitoken": _TOKENS,
    "scitokens_file": Idle("name the file in transfer_input_files, if the job shall have it"),
    "delegate_job_gsi_credentials_lifetime": Idle("a proxy is copied, not delegated"),
    "suspend_job_at_exec": Idle("no program is started beside the job", "false"),
    **dict.fromkeys(
        (
            *("tool_daemon_cmd", "tool_daemon_args", "tool_daemon_arguments", "tool_daemon_arguments2"),
            *("tool_daemon_input", "tool_daemon_output", "tool_daemon_error"),
        ),
        _TOOL,
    ),
    **dict.fromkeys(
        (
            *("append_files", "fetch_files", "compress_files", "local_files", "file_remaps"),
            *("buffer_files", "buffer_size", "buffer_block_size"),
        ),
        _STANDARD,
    ),
}

_BY_ATTRIBUTE: Final = {one.attribute.lower(): one.name for one in COMMANDS if one.name in WITHOUT_EFFECT}


def idle_line(name: str, text: str) -> str | None:
    """The warning about a line of a description that does nothing; `name` is a command or, as `+Name`, an attribute."""
    plain = name.lower().removeprefix("my.").removeprefix("+")
    idle = WITHOUT_EFFECT.get(plain) or WITHOUT_EFFECT.get(_BY_ATTRIBUTE.get(plain, ""))
    if idle is None or not text.strip() or text.strip().lower() == idle.fine:
        return None
    return f"the command '{name}' has no effect: {idle.why}"
