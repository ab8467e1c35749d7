"""Reading configurations: the language, the order of files, typed answers, where each came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from pool.base.errors import ConfigError
from pool.config import Config, load_config
from pool.config.restart import changed, waiting_for_restart


def a_config(tmp_path: Path, text: str, **options: object) -> Config:
    file = tmp_path / "config"
    file.write_text(text)
    options.setdefault("environ", {})
    return load_config([str(file)], **options)  # type: ignore[arg-type]


def test_values_and_where_they_come_from(tmp_path: Path) -> None:
    config = a_config(tmp_path, "LOCAL_DIR = /pool\nA = 1\nB = $(A) $(C:no) \\\n  more\n")
    assert config["B"] == "1 no more"
    assert (config.where("b").file, config.where("b").line) == (str(tmp_path / "config"), 3)
    assert config["LOG"] == "/pool/log"
    assert str(config.where("LOG")) == "<Default>"
    assert config.raw("LOG") == "$(LOCAL_DIR)/log"
    assert config["NOT_THERE"] is None


def test_references_to_itself_and_appending(tmp_path: Path) -> None:
    text = "A = 1\nA = $(A) 2\nB +,= x\nB +,= y\nC = p\nC +&&= q\nD = $(E)\nE = late\n"
    config = a_config(tmp_path, text)
    assert [config[name] for name in "ABCD"] == ["1 2", "x,y", "p && q", "late"]


def test_subsystem_and_local_name_win(tmp_path: Path) -> None:
    text = "X = 1\nSCHEDD.X = 2\nLOCAL.X = 3\nSCHEDD.Y = $(Y) more\nY = base\n"
    assert a_config(tmp_path, text).int("X") == 1
    assert a_config(tmp_path, text, subsystem="SCHEDD").int("X") == 2
    assert a_config(tmp_path, text, subsystem="SCHEDD", local_name="LOCAL").int("X") == 3
    assert a_config(tmp_path, text, subsystem="SCHEDD").found_as("X") == "SCHEDD.X"
    both = f"{text}SCHEDD.LOCAL.X = 4\n"
    assert a_config(tmp_path, both, subsystem="SCHEDD", local_name="LOCAL").int("X") == 4
    assert a_config(tmp_path, both, subsystem="SCHEDD").int("X") == 2
    assert a_config(tmp_path, both, subsystem="TOOL", local_name="LOCAL").int("X") == 3


def test_multi_line_values(tmp_path: Path) -> None:
    assert a_config(tmp_path, "J @=end\n one\n # not\n two = $(A)\n@end\nA=1\n")["J"] == "one\ntwo = 1"


def test_conditions_and_includes(tmp_path: Path) -> None:
    (tmp_path / "more").write_text("FROM_MORE = yes\n")
    text = f"include : {tmp_path}/more\ninclude ifexist : {tmp_path}/nope\nif defined FROM_MORE\nA = 1\nelse\nA = 2\nendif\n"
    config = a_config(tmp_path, text)
    assert config["A"] == "1"
    assert config.files == [str(tmp_path / "config"), str(tmp_path / "more")]


def test_output_of_commands(tmp_path: Path) -> None:
    text = f"include command : a script\ninclude command into {tmp_path}/cache : a script\n"
    config = a_config(tmp_path, text, run=lambda command: f"SAID = {command}\n")
    assert config["SAID"] == "a script"
    assert (tmp_path / "cache").read_text() == "SAID = a script\n"
    with pytest.raises(ConfigError, match="not allowed"):
        a_config(tmp_path, text.split("\n")[0])


def test_templates_with_arguments(tmp_path: Path) -> None:
    text = "use ROLE : Submit, Execute\nuse FEATURE : PartitionableSlot(2, cpus=50%, mem=1/2)\n"
    config = a_config(tmp_path, text)
    assert config.list("DAEMON_LIST") == ["MASTER", "SCHEDD", "STARTD"]
    assert config["SLOT_TYPE_2"] == "cpus=50%, mem=1/2"
    assert config.bool("SLOT_TYPE_2_PARTITIONABLE")
    assert str(config.where("SLOT_TYPE_2")).endswith("line 2, use FEATURE:PartitionableSlot")


def test_policies_build_on_each_other(tmp_path: Path) -> None:
    config = a_config(tmp_path, "use POLICY : Hold_If_Memory_Exceeded\nuse POLICY : Preempt_If_Runtime_Exceeds(100)\n")
    hold = config.str("WANT_HOLD")
    assert "MemoryUsage > Memory" in hold
    assert "102" in config.str("WANT_HOLD_SUBCODE")
    assert "> 100" in config.str("PREEMPT")


def test_a_personal_pool_needs_no_file(tmp_path: Path) -> None:
    nothing = {"HOME": str(tmp_path), "CONDOR_CONFIG": "ONLY_ENV"}
    config = load_config(environ=nothing)
    assert set(config.list("DAEMON_LIST")) == {"MASTER", "COLLECTOR", "NEGOTIATOR", "SCHEDD", "STARTD"}


def test_files_are_searched_in_order(tmp_path: Path) -> None:
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool" / "config").write_text("WHO = pool_dir\n")
    (tmp_path / "named").write_text("WHO = named\n")
    environ = {"HOME": str(tmp_path), "POOL_DIR": str(tmp_path / "pool")}
    assert load_config(environ=environ)["WHO"] == "pool_dir"
    assert load_config(environ=environ)["LOCAL_DIR"] == str(tmp_path / "pool")
    assert load_config(environ={**environ, "CONDOR_CONFIG": str(tmp_path / "named")})["WHO"] == "named"
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(environ={**environ, "CONDOR_CONFIG": str(tmp_path / "gone")})


def test_directories_then_the_environment_then_overrides(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "02").write_text("A = two\nB = two\nC = two\n")
    (tmp_path / "d" / "01").write_text("A = one\n")
    (tmp_path / "d" / "old~").write_text("A = old\n")
    text = f"A = file\nLOCAL_CONFIG_DIR = {tmp_path}/d\n"
    config = a_config(tmp_path, text, environ={"_CONDOR_B": "env", "_condor_C": "env"}, overrides={"C": "given"})
    assert [config[name] for name in "ABC"] == ["two", "env", "given"]
    assert str(config.where("B")) == "<Environment>"


def test_local_files(tmp_path: Path) -> None:
    (tmp_path / "l").write_text("A = local\n")
    assert a_config(tmp_path, f"A = main\nLOCAL_CONFIG_FILE = {tmp_path}/l\n")["A"] == "local"
    with pytest.raises(ConfigError, match="cannot read"):
        a_config(tmp_path, f"LOCAL_CONFIG_FILE = {tmp_path}/gone\n")
    text = f"REQUIRE_LOCAL_CONFIG_FILE = false\nLOCAL_CONFIG_FILE = {tmp_path}/gone\n"
    assert a_config(tmp_path, text)["A"] is None


def test_typed_answers(tmp_path: Path) -> None:
    text = "I = 2*3\nF = 1.5\nB = True\nS = 90s\nM = 10 Mb\nL = a, b c\nP = /a//b/\nE = Memory > 1\nZ =\n"
    config = a_config(tmp_path, text)
    assert config.int("I") == 6
    assert config.float("F") == 1.5
    assert config.bool("B") is True
    assert config.seconds("S") == 90
    assert config.bytes("M") == 10 << 20
    assert config.list("L") == ["a", "b", "c"]
    assert config.path("P") == "/a/b"
    found = config.expr("E")
    assert found is not None
    assert found.text == "Memory > 1"
    assert config.expr("Z") is None
    assert config.int("Z", 4) == 4
    assert config.str("NOPE", "d") == "d"
    assert config.seconds("ALIVE_INTERVAL") == 300


@pytest.mark.parametrize(
    ("text", "ask", "says"),
    [
        ("X = abc\n", lambda config: config.int("X"), "not an integer"),
        ("X = abc\n", lambda config: config.bool("X"), "neither true nor false"),
        ("ALIVE_INTERVAL = 0\n", lambda config: config.seconds("ALIVE_INTERVAL"), "out of range"),
        ("START = 1 +\n", lambda config: config.expr("START"), "not an expression"),
        ("X = $(Y)\nY = $(X)\n", lambda config: config["X"], "without end"),
    ],
)
def test_wrong_values_name_their_place(tmp_path: Path, text: str, ask: object, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        ask(a_config(tmp_path, text))  # type: ignore[operator]
    assert f"{tmp_path}/config:1" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("A = 1\nnonsense\n", 2, "neither an assignment"),
        ("A = 1\nb-c = 2\n", 2, "illegal name"),
        ("use ROLE : Sumbit\n", 1, "did you mean Submit"),
        ("use NOPE : X\n", 1, "does not recognise"),
        ("if true\nA = 1\n", 2, "endif"),
        ("\nif a > b\nendif\n", 2, "complex"),
        ("error : not here\n", 1, "not here"),
        ("include : /no/such/file\n", 1, "cannot include"),
        ("include often : x\n", 1, "unexpected keyword"),
        ("A @=end\n x\n", 1, "@end"),
        ("use POLICY : Preempt_If\n", 1, "requires an argument"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, text: str, line: int, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        a_config(tmp_path, text)
    assert caught.value.span is not None
    assert caught.value.span.line == line


def test_includes_without_end_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="too deep"):
        a_config(tmp_path, f"include : {tmp_path}/config\n")


def test_a_name_close_to_a_knob_warns(tmp_path: Path) -> None:
    text = "MEMROY = 12\nMY_OWN = 3\nUSED = x\nOTHER = $(USED)\nwarning : careful\n"
    warnings = a_config(tmp_path, text).warnings
    assert [warning.partition("warning: ")[2] for warning in warnings] == [
        "careful",
        'unknown knob "MEMROY" (did you mean "MEMORY"?)',
    ]
    assert warnings[1].startswith(f"{tmp_path}/config:1:")


def test_misspelt_members_of_families_are_told_the_right_one(tmp_path: Path) -> None:
    warnings = a_config(tmp_path, "STRATD_DEBUG = D_FULLDEBUG\nSLOT_TYP_2 = cpus=1\nSCHEDD_DEBUG = D_ALL\n").warnings
    assert [warning.partition("warning: ")[2] for warning in warnings] == [
        'unknown knob "STRATD_DEBUG" (did you mean "STARTD_DEBUG"?)',
        'unknown knob "SLOT_TYP_2" (did you mean "SLOT_TYPE_2"?)',
    ]


def test_other_configurations_from_this_one(tmp_path: Path) -> None:
    config = a_config(tmp_path, "A = 1\nB = $(A)\n")
    other = config.with_overrides({"A": "2"})
    assert (config["B"], other["B"]) == ("1", "2")
    (tmp_path / "config").write_text("A = 3\nNUM_CPUS = 9\nSPOOL = /new\n")
    again = config.reload(subsystem="STARTD")
    assert (again["A"], again.subsystem) == ("3", "STARTD")
    assert {"A", "NUM_CPUS"} <= set(changed(config, again))
    assert {"NUM_CPUS", "SPOOL"} <= set(waiting_for_restart(config, again, "STARTD"))
    assert "A" not in waiting_for_restart(config, again, "STARTD")
    assert "NUM_CPUS" not in waiting_for_restart(config, again, "SCHEDD")


def test_host_names(tmp_path: Path) -> None:
    config = a_config(tmp_path, "NETWORK_HOSTNAME = ap1\nDEFAULT_DOMAIN_NAME = pool.test\n")
    assert (config["FULL_HOSTNAME"], config["HOSTNAME"], config["UID_DOMAIN"]) == (
        "ap1.pool.test",
        "ap1",
        "ap1.pool.test",
    )


@pytest.mark.parametrize("said", ["1_000", "\u0661\u0662"])
def test_what_only_python_takes_for_a_number_is_none(said: str) -> None:
    config = load_config([], overrides={"MAX_JOBS_RUNNING": said, "DEFAULT_PRIO_FACTOR": said}, environ={})
    with pytest.raises(ConfigError):
        config.int("MAX_JOBS_RUNNING")
    with pytest.raises(ConfigError):
        config.float("DEFAULT_PRIO_FACTOR")


def test_physical_cpus_are_cores_and_not_their_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.cpu_count", lambda logical=True: 64 if logical else 32)
    config = load_config([], overrides={"X": "$(DETECTED_PHYSICAL_CPUS)"}, environ={})
    assert config.str("X") == "32"


@pytest.mark.parametrize("said", ["1e400", "-1e400", 'real("nan")', "1.0e300 / 1.0e-300"])
def test_an_infinite_amount_is_none(said: str) -> None:
    config = load_config([], overrides={"MAX_JOBS_RUNNING": said, "MAX_DEFAULT_LOG": said}, environ={})
    with pytest.raises(ConfigError):
        config.int("MAX_JOBS_RUNNING")
    with pytest.raises(ConfigError):
        config.bytes("MAX_DEFAULT_LOG")


@pytest.mark.parametrize("line", ["include : a\0b", "LOCAL_CONFIG_FILE = a\0b", "LOCAL_CONFIG_DIR = a\0b"])
def test_a_name_that_no_file_can_have_is_told(tmp_path: Path, line: str) -> None:
    (tmp_path / "config").write_text(line + "\n")
    with pytest.raises(ConfigError, match=r"cannot (read|include)"):
        load_config([str(tmp_path / "config")], environ={})


def test_random_macros_are_drawn_anew_in_each_process(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("DRAWN = $RANDOM_INTEGER(1,1000000000000)\n")
    assert len({load_config([str(file)], environ={}).str("DRAWN") for _ in range(3)}) == 3
