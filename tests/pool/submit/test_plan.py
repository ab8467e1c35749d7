"""What surrounds a description: the command line, the cluster's id, refusals, warnings."""

from __future__ import annotations

from contextlib import suppress

import pytest

from pool.base.errors import SubmitError
from pool.submit.world import SubmitWorld
from tests.pool.submit.build import Place

PLAIN = "executable = job.sh\n"


def refused(place: Place, text: str, **options: object) -> SubmitError:
    with pytest.raises(SubmitError) as caught:
        place.ads(text, **options)
    return caught.value


def test_key_value_arguments_come_before_the_description(place: Place) -> None:
    assert place.ad("x = $(x) more\n" + PLAIN + "arguments = $(x)\n", extra=["x=first"])["Args"] == "first more"


def test_appended_lines_come_before_the_queue_statement(place: Place) -> None:
    assert place.ad(PLAIN + "priority = 1\nqueue\n", appended=["priority = 7"])["JobPrio"] == 7


def test_queue_arguments_serve_a_description_without_queue_statement(place: Place) -> None:
    assert len(place.ads(PLAIN + "arguments=$(x)\n", queue_args="2 x in (a b)")) == 4


def test_queue_arguments_conflict_with_a_queue_statement(place: Place) -> None:
    assert "conflicts" in refused(place, PLAIN + "queue\n", queue_args="3").message


def test_a_second_queue_statement_is_accepted_with_a_warning(place: Place) -> None:
    plan = place.plan(PLAIN + "arguments=a\nqueue\narguments=b\nqueue 2\n")
    assert [ad.flat()["Args"] for ad in plan.procs()] == ["a", "b", "b"]
    assert any("multiple queue statements" in warning for warning in plan.warnings)


def test_a_second_queue_statement_is_refused_where_the_site_says_so(place: Place) -> None:
    error = refused(place, PLAIN + "queue\nqueue\n", knobs={"SUBMIT_PREVENT_MULTI_QUEUE": "true"})
    assert str(error).startswith("t.sub:3:1: Extra data found after queue statement")


def test_the_cluster_id_is_put_in_when_it_is_known(place: Place) -> None:
    plan = place.plan(PLAIN + "output = o.$(Cluster).$(Process)\nqueue 2\n")
    assert plan.needs_cluster_id
    assert [ad["Out"] for ad in plan.for_cluster(77).procs()] == ["o.77.0", "o.77.1"]
    assert not place.plan(PLAIN + "output = o.$(Process)\nqueue\n").needs_cluster_id


@pytest.mark.parametrize("command", ["ec2_ami_id", "gce_image", "xen_kernel", "grid_resource"])
def test_commands_of_what_is_not_built_are_refused_by_name(place: Place, command: str) -> None:
    error = refused(place, f"{PLAIN}{command} = x\nqueue\n")
    assert error.message.startswith(f"{command} belongs to")
    assert "t.sub:2" in str(error)


@pytest.mark.parametrize("line", ["machine_count = 1", "node_count = 1", "nodecount = 1"])
def test_the_counts_of_parallel_jobs_are_unused_in_others(place: Place, line: str) -> None:
    plan = place.plan(f"{PLAIN}{line}\nqueue\n")
    (ad,) = plan.procs()
    assert plan.unused() == [f"the line '{line}' was unused by condor_submit. Is it a typo?"]
    assert (ad.flat()["MinHosts"], ad.flat()["MaxHosts"]) == (1, 1)


@pytest.mark.parametrize("universe", ["standard", "pvm", "grid", "mpi"])
def test_universes_that_are_not_built_are_refused_by_name(place: Place, universe: str) -> None:
    assert universe in refused(place, f"universe = {universe}\n{PLAIN}queue\n").message.lower()


PARALLEL = f"universe = parallel\n{PLAIN}"


@pytest.mark.parametrize("command", ["machine_count", "node_count", "nodecount"])
def test_a_parallel_job_has_so_many_nodes_on_machines_for_it(place: Place, command: str) -> None:
    plan = place.plan(f"{PARALLEL}{command} = 3\noutput = o.$(Node)\nqueue\n")
    (ad,) = plan.procs()
    flat = ad.flat()
    assert [flat[name] for name in ("JobUniverse", "MinHosts", "MaxHosts", "OrigMaxHosts")] == [11, 3, 3, 3]
    assert flat["Out"] == "o.#pArAlLeLnOdE#"
    assert "(TARGET.DedicatedScheduler == MY.Scheduler)" in flat.text("Requirements")
    assert not plan.unused()


def test_each_queue_statement_of_a_parallel_job_has_nodes_of_its_own(place: Place) -> None:
    plan = place.plan(
        f"{PARALLEL}machine_count = 1\nqueue\nmachine_count = 3\nrequirements = HasGlue\nqueue\nqueue 2\n"
    )
    ads = [ad.flat() for ad in plan.procs()]
    assert [ad["MaxHosts"] for ad in ads] == [1, 3, 3, 3]
    assert ["HasGlue" in ad.text("Requirements") for ad in ads] == [False, True, True, True]
    assert all("DedicatedScheduler == MY.Scheduler" in ad.text("Requirements") for ad in ads)


@pytest.mark.parametrize(
    ("lines", "message", "line"),
    [
        ("queue", "No machine_count specified!", "t.sub:1"),
        ("machine_count = 0\nqueue", "machine_count=0 is invalid, must eval to a positive integer.", "t.sub:3"),
        ("machine_count = few\nqueue", "machine_count=few is invalid, must eval to a positive integer.", "t.sub:3"),
        ("machine_count = 2\nqueue\nmachine_count = 0\nqueue", "machine_count=0 is invalid", "t.sub:5"),
    ],
)
def test_a_parallel_job_that_cannot_be_is_refused(place: Place, lines: str, message: str, line: str) -> None:
    error = refused(place, f"{PARALLEL}{lines}\n")
    assert error.message.startswith(message)
    assert line in str(error)


def test_a_misspelt_command_warns_with_the_nearest_name(place: Place) -> None:
    plan = place.plan(PLAIN + "prioritty = 4\nqueue\n")
    list(plan.procs())
    (warning,) = plan.unused()
    assert warning.startswith("the line 'prioritty = 4' was unused by condor_submit. Is it a typo?")
    assert warning.endswith("Did you mean 'priority'?")


def test_a_misspelt_request_warns_though_it_names_a_custom_resource(place: Place) -> None:
    plan = place.plan(PLAIN + "request_memroy = 4\nqueue\n")
    assert any("request_memory" in warning for warning in plan.warnings)
    assert plan.cluster_ad["RequestMemroy"] == 4


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('arguments = "a \'b"\nqueue\n', 2),
        ("requirements = (Memory >\nqueue\n", 2),
        ("requirements = it's\nqueue\n", 2),
        ("+Foo = 1 +\nqueue\n", 2),
        ("a-b = 1\nqueue\n", 2),
        ("this is no statement\nqueue\n", 2),
        ("priority = 1\nqueue x\n", 3),
        ("queue x from nowhere.txt\n", 2),
        ("queue x in (a\n b\n", 2),
        ("if 3 > 2\nendif\nqueue\n", 2),
        ("endif\nqueue\n", 2),
        ("include : nope\nqueue\n", 2),
        ("error : stop here\nqueue\n", 2),
        ("use template : Nope\nqueue\n", 2),
        ("priority = high\nqueue\n", 2),
        ("log_xml = maybe\nqueue\n", 2),
        ("notification = sometimes\nqueue\n", 2),
        ("kill_sig = SIGNOPE\nqueue\n", 2),
        ("universe = planet\nqueue\n", 2),
        ("should_transfer_files = perhaps\nqueue\n", 2),
        ("initialdir = nowhere\nqueue\n", 2),
        ("deferral_time = -1\nqueue\n", 2),
        ("concurrency_limits = a!\nqueue\n", 2),
        ("image_size = 0\nqueue\n", 2),
    ],
)
def test_a_wrong_line_is_named(place: Place, text: str, line: int) -> None:
    error = refused(place, PLAIN + text)
    assert error.span is not None
    assert (error.span.file, error.span.line) == ("t.sub", line)


def test_a_wrong_job_in_the_middle_is_found_before_anything_is_sent(place: Place) -> None:
    refused(place, PLAIN + "priority = $(p)\nqueue p in (1 2 x 4)\n")


def test_late_materialization_is_noted_in_the_cluster_ad(place: Place) -> None:
    plan = place.plan(PLAIN + "max_materialize = 5\nmax_idle = 2\nqueue 100\n")
    assert plan.late
    assert plan.cluster_ad["JobMaterializeLimit"] == 5
    assert plan.cluster_ad["JobMaterializeMaxIdle"] == 2


def test_a_spooled_job_waits_for_its_files(place: Place) -> None:
    ad = place.ad(PLAIN + "output = out/o\nqueue\n", remote=True)
    assert (ad["JobStatus"], ad["HoldReasonCode"]) == (5, 16)
    assert ad["Out"] == "_condor_stdout"
    assert ad["TransferOutputRemaps"] == "_condor_stdout=out/o"


def test_files_without_jobs_make_an_empty_plan(place: Place) -> None:
    plan = place.plan(PLAIN + "queue matching *.nothing\n")
    assert plan.count == 0
    assert list(plan.procs()) == []


def test_random_choices_come_from_the_chance_that_is_handed_in(place: Place) -> None:
    class Second:
        def randrange(self, stop: int, /) -> int:
            return 1

    text = PLAIN + "arguments = $RANDOM_CHOICE(a,b,c) $RANDOM_INTEGER(10,20,5)\nqueue\n"
    assert place.ad(text, chance=Second())["Args"] == "b 15"


def test_a_program_that_is_not_there_is_not_looked_for_where_checks_are_skipped(place: Place) -> None:
    assert place.ad("executable = nowhere\nqueue\n", skip_checks=True)["Cmd"] == str(place.where / "nowhere")
    with pytest.raises(SubmitError, match="Can't access executable file nowhere"):
        place.ad("executable = nowhere\nqueue\n")


def test_a_job_does_not_repeat_the_numbers_that_its_cluster_says(place: Place) -> None:
    ads = list(
        place.plan(
            PLAIN + "universe = local\nhold = $(h)\narguments = $(Process)\nqueue h in (true true true)\n"
        ).procs()
    )
    own = {name for name, _ in ads[2].own()}
    assert "Args" in own
    assert own.isdisjoint({"JobUniverse", "HoldReasonCode"})
    assert (ads[2]["JobUniverse"], ads[2]["HoldReasonCode"]) == (12, 15)


@pytest.mark.parametrize("value", ["\x1fa", "a\xa0", "\u3000a\x1c\x85"])
def test_a_value_keeps_what_only_python_takes_for_blanks(place: Place, value: str) -> None:
    ad = place.ad(f"{PLAIN}batch_name = {value}\narguments = {value}\ntransfer_input_files = \x20{value}\t,b\nqueue\n")
    assert (ad["JobBatchName"], ad["Args"], ad["TransferInput"]) == (value, value, f"{value},b")


def test_an_environment_may_begin_with_the_unit_separator(place: Place) -> None:
    assert place.ad(f"{PLAIN}environment = \x1fA=1\x1fB=2\nqueue\n")["Environment"] == "A=1 B=2"


@pytest.mark.parametrize("digits", ["9" * 400 + ".5", "9" * 5000])
@pytest.mark.parametrize("command", ["request_memory", "request_disk", "request_cpus", "priority"])
def test_a_number_that_nothing_can_hold_is_refused_or_kept_as_it_is(place: Place, command: str, digits: str) -> None:
    with suppress(SubmitError):
        place.ad(f"{PLAIN}{command} = {digits}\nqueue\n")


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize(
    "command", ["executable", "input", "container_image", "transfer_input_files", "tool_daemon_cmd"]
)
def test_a_name_that_no_file_can_have_is_that_of_no_file(place: Place, command: str, name: str) -> None:
    with suppress(SubmitError):
        place.ads(f"{PLAIN}{command} = {name}\nqueue\n")


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
def test_what_can_be_no_path_cannot_be_read(path: str) -> None:
    world = SubmitWorld()
    with pytest.raises(OSError, match="Invalid argument"):
        world.read_file(path)
    assert world.size(path) is None
    assert not world.has_crlf(path)


def test_a_timeout_of_thousands_of_digits_ends_nothing(place: Place) -> None:
    assert place.ad(f"{PLAIN}kill_sig_timeout = {'9' * 5000}\nqueue\n")["KillSigTimeout"] > 0
