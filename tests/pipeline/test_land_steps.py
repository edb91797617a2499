"""Landing, whenever a run is killed and whatever happens to the cluster meanwhile. Each test ends with an exact count."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kshim_pipeline.errors import PipelineError
from kshim_pipeline.folder import LocalFolder
from kshim_pipeline.inputs.kafka import Cluster, Identity, Span
from kshim_pipeline.land import steps
from kshim_pipeline.land.batches import BASE_EVERY, PLAN, RECOVERY, Batch, Batches, LandedFile, Offsets, batch_of
from kshim_pipeline.land.checks import Loss, losses, require_same
from kshim_pipeline.land.recovery import Recovered, gone_records, not_covered, topic_ids_of, with_readable
from tests.pipeline.landing_world import DAY, Kill, Killed, Run, Topic, World, records_in

OFFSETS = "__consumer_offsets"


@pytest.fixture
def world() -> World:
    """A cluster with two topics."""
    world = World(OFFSETS, "orders")
    for topic in world.topics.values():
        topic.append(5)
    return world


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def appended(world: World) -> None:
    for topic in world.topics.values():
        topic.append(4)


def nothing(_: World) -> None:
    pass


def is_killed(run: Run) -> bool:
    try:
        run.land()
    except Killed:
        return True
    return False


def each_kill(world: World, lake: Path, tmp_path: Path) -> list[Path]:
    """The directory as each moment of killing a run leaves it."""
    left: list[Path] = []
    while True:
        copy = tmp_path / f"killed-{len(left)}"
        if lake.exists():
            shutil.copytree(lake, copy)
        if not is_killed(Run(world, copy, kill=Kill(len(left) + 1))):
            return left
        left.append(copy)


@pytest.mark.parametrize("before", [nothing, appended], ids=["first run", "later run"])
@pytest.mark.parametrize("after", [nothing, appended], ids=["and nothing else", "and more came"])
def test_a_run_may_be_killed_at_any_moment(
    world: World, lake: Path, tmp_path: Path, before: Callable[[World], None], after: Callable[[World], None]
) -> None:
    if before is appended:
        Run(world, lake).land()
        appended(world)
    left = each_kill(world, lake, tmp_path)
    assert len(left) >= 11, "the plan, two files, the description and the name of a batch"
    after(world)
    for path in left:
        Run(world, path).land()
        assert records_in(path) == world.places(), path.name


def test_a_run_may_be_killed_again_while_it_takes_up_what_another_left(
    world: World, lake: Path, tmp_path: Path
) -> None:
    for number, left in enumerate(each_kill(world, lake, tmp_path)):
        for path in each_kill(world, left, tmp_path / f"again-{number}"):
            Run(world, path).land()
            assert records_in(path) == world.places(), path


def test_what_a_killed_run_had_copied_is_landed_even_if_the_cluster_compacted_it(
    world: World, lake: Path, tmp_path: Path
) -> None:
    before = world.places()
    left = each_kill(world, lake, tmp_path)
    for topic in world.topics.values():
        topic.compact(lambda offset: offset == 4)
    copied = [path for path in left if list(path.glob("records/*/_SUCCESS"))]
    assert len(copied) >= 5
    for path in left:
        Run(world, path).land()
        assert records_in(path) == (before if path in copied else world.places()), path.name


def test_what_is_deleted_before_it_was_landed_is_said_and_the_rest_is_landed(
    world: World, lake: Path, tmp_path: Path
) -> None:
    Run(world, lake).land()
    landed = world.places()
    appended(world)
    left = each_kill(world, lake, tmp_path)
    all_of_it = world.places()
    for topic in world.topics.values():
        topic.delete_before(7)
    for path in left:
        run = Run(world, path)
        run.land()
        missing = (all_of_it - records_in(path)).total()
        assert records_in(path) - all_of_it == landed - landed, "and nothing twice"
        said = [int(found[1]) for found in map(re.compile(r"Lost: (\d+) offsets").match, run.said) if found]
        assert sum(said) == missing, (path.name, run.said)


def test_records_deleted_while_they_are_copied_are_said(world: World, lake: Path) -> None:
    world.while_copying = lambda: world.topics["orders"].delete_before(3)
    run = Run(world, lake)
    run.land()
    assert records_in(lake) == world.places()
    assert run.said == []
    appended(world)
    world.while_copying = lambda: world.topics["orders"].delete_before(7)
    run = Run(world, lake)
    run.land()
    assert [sentence[:28] for sentence in run.said] == ["Lost: 4 offsets were deleted"]
    assert (world.places() - records_in(lake)).total() == 0


def test_a_copy_that_fails_for_another_reason_is_an_error_and_is_done_again(world: World, lake: Path) -> None:
    def fail() -> None:
        raise steps.CopyFailed("the disk is full")

    world.while_copying = fail
    with pytest.raises(steps.CopyFailed, match="the disk is full"):
        Run(world, lake).land()
    Run(world, lake).land()
    assert records_in(lake) == world.places()


def test_compaction_while_records_are_copied_loses_only_what_it_removed(world: World, lake: Path) -> None:
    kept = world.places("orders")
    world.while_copying = lambda: world.topics["orders"].compact(lambda offset: offset == 4)
    Run(world, lake).land()
    found = records_in(lake)
    assert found - kept - world.places() == type(found)()
    assert world.places() - found == type(found)()


def test_files_with_fewer_records_than_were_copied_are_not_landed(world: World, lake: Path) -> None:
    """As if another program removed one, or Spark wrote where nobody looks."""

    class Losing(Run):
        def copy(self, attempt: str, begin: Offsets, end: Offsets, source: str) -> int:
            count = super().copy(attempt, begin, end, source)
            next((self.disk.path / attempt).rglob("*.parquet")).unlink()
            return count

    with pytest.raises(PipelineError, match=r"20 records were copied to .*, and 10 are there"):
        Losing(world, lake).land()
    assert Batches(LocalFolder(lake)).landed().end == {}


def test_a_recreated_topic_is_refused_however_long_it_is(world: World, lake: Path) -> None:
    Run(world, lake).land()
    before = records_in(lake)
    for count in (1, 5, 50):
        world.recreate("orders", count)
        with pytest.raises(PipelineError, match=r"The topic orders was recreated: .* Land it in another directory"):
            Run(world, lake).land()
    assert records_in(lake) == before


def test_a_topic_that_is_recreated_around_a_killed_run_is_never_mixed_with_the_old_one(
    world: World, lake: Path, tmp_path: Path
) -> None:
    old = world.places()
    left = each_kill(world, lake, tmp_path)
    world.recreate("orders", 9)
    new = world.places()
    finished, refused = sum(any(path.glob("records/*/_SUCCESS")) for path in left), 0
    for path in left:
        try:
            Run(world, path).land()
        except PipelineError as error:
            refused += "was recreated" in str(error)
        assert records_in(path) in (type(old)(), old, new), path.name
    assert refused == finished > 0


def test_a_topic_that_is_recreated_while_it_is_copied_is_not_landed(world: World, lake: Path) -> None:
    for count in (1, 5, 50):
        path = lake / str(count)
        world.while_copying = lambda count=count: world.recreate("orders", count)  # type: ignore[misc]
        with pytest.raises(PipelineError, match=r"was recreated|no longer all offsets|ends at offset"):
            Run(world, path, "orders", OFFSETS).land()
        assert records_in(path).total() == 0


def test_a_topic_that_is_recreated_between_two_batches_of_a_run_is_refused(world: World, lake: Path) -> None:
    run = Run(world, lake)
    run.land()
    before = records_in(lake)
    world.recreate("orders", 50)
    with pytest.raises(PipelineError, match="The topic orders was recreated"):
        run.step()
    assert records_in(lake) == before


def test_a_cluster_is_known_again_after_it_did_not_say_its_id_for_a_while(world: World, lake: Path) -> None:
    Run(world, lake).land()
    world.cluster_id = None
    appended(world)
    Run(world, lake).land()
    world.cluster_id = "west"
    with pytest.raises(PipelineError, match="has records of the cluster east"):
        Run(world, lake).land()


def test_a_topic_that_is_not_always_landed_is_known_again_when_it_was_recreated(world: World, lake: Path) -> None:
    """Also when more batches came between than are read."""
    Run(world, lake).land()
    for _ in range(BASE_EVERY + 2):
        world.topics[OFFSETS].append(1)
        Run(world, lake, OFFSETS).land()
    world.recreate("orders", 50)
    with pytest.raises(PipelineError, match="The topic orders was recreated"):
        Run(world, lake).land()
    Run(world, lake, OFFSETS).land()
    assert sum(name == OFFSETS for name, *_ in records_in(lake).elements()) == world.places(OFFSETS).total()


@pytest.mark.parametrize("ids", [("east", "west"), (None, None)], ids=["with ids", "without ids"])
def test_another_cluster_is_refused_and_two_are_kept_apart(tmp_path: Path, ids: tuple[str | None, str | None]) -> None:
    """Without ids it is told by a log that is shorter."""
    one, other = (World("orders", cluster_id=cluster_id) for cluster_id in ids)
    one.topics["orders"].append(8)
    other.topics["orders"].append(3)
    other.topics["orders"].id = one.topics["orders"].id
    Run(one, tmp_path / "one").land()
    with pytest.raises(PipelineError, match="Land it in another directory"):
        Run(other, tmp_path / "one").land()
    Run(other, tmp_path / "other").land()
    assert records_in(tmp_path / "one") == one.places()
    assert records_in(tmp_path / "other") == other.places()


def test_a_first_run_on_a_cluster_that_was_killed_does_not_mix_with_another_cluster(
    world: World, lake: Path, tmp_path: Path
) -> None:
    before = world.places()
    left = each_kill(world, lake, tmp_path)
    other = World(OFFSETS, "orders", cluster_id="west")
    appended(other)
    finished, refused = sum(any(path.glob("records/*/_SUCCESS")) for path in left), 0
    for path in left:
        try:
            Run(other, path).land()
        except PipelineError as error:
            refused += "has records of the cluster east" in str(error)
        assert records_in(path) in (type(before)(), before, other.places())
    assert refused == finished > 0


def test_a_log_that_lost_its_end_while_it_was_copied_is_not_landed(world: World, lake: Path) -> None:
    """Else what comes in its place would be taken for landed."""

    class Losing(Run):
        def files(self, attempt: str) -> tuple[LandedFile, ...]:
            world.topics["orders"].truncate(2)
            return super().files(attempt)

    world.while_copying = lambda: world.topics["orders"].truncate(4)
    with pytest.raises(PipelineError, match=r"no longer all offsets|ends at offset 4"):
        Run(world, lake, "orders").land()
    with pytest.raises(PipelineError, match="ends at offset 2"):
        Losing(world, lake, "orders").land()
    assert records_in(lake).total() == 0


def test_what_a_partition_loses_that_was_empty_is_said(world: World, lake: Path) -> None:
    world.topics["returns"] = Topic()
    Run(world, lake).land()
    world.topics["returns"].append(4)
    world.topics["returns"].delete_before(3)
    run = Run(world, lake)
    run.land()
    assert run.said[0].startswith(
        "Lost: 6 offsets were deleted before they could be landed (returns-0: offsets 0 to 2;"
    )
    assert records_in(lake) == world.places()


def test_a_log_that_is_shorter_than_what_was_landed_is_refused(world: World, lake: Path) -> None:
    Run(world, lake).land()
    before = records_in(lake)
    world.topics["orders"].truncate(2)
    with pytest.raises(PipelineError, match="orders-0 ends at offset 2"):
        Run(world, lake).land()
    assert records_in(lake) == before


def test_a_partition_that_is_gone_is_refused(world: World) -> None:
    with pytest.raises(PipelineError, match="has records of orders-1, which is not there"):
        losses({"orders": {0: 5, 1: 5}}, {"orders": {0: Span(0, 5)}}, "lake")
    assert losses({"orders": {0: 5}}, {}, "lake") == [], "a topic that is not asked for"


def test_large_topics_are_landed_in_several_batches_up_to_the_end_of_the_beginning(
    world: World, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "OFFSETS_PER_BATCH", 8)
    run = Run(world, lake)
    landed = run.land()
    assert landed.number == 3
    assert records_in(lake) == world.places()


def test_only_what_was_there_at_the_start_is_landed_if_so_asked(world: World, lake: Path) -> None:
    run = Run(world, lake)
    run.take_up()
    ends = {name: dict(enumerate(topic.ends)) for name, topic in world.topics.items()}
    before = world.places()
    appended(world)
    while run.step(ends) is not None:
        pass
    assert records_in(lake) == before


def lost(lake: Path, *patterns: str) -> None:
    for pattern in patterns:
        found = list(lake.glob(pattern))
        assert found, pattern
        for path in found:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def three_batches(world: World, lake: Path) -> None:
    for _ in range(3):
        Run(world, lake).land()
        appended(world)


@pytest.mark.parametrize(
    "gone",
    [
        ["batches"],
        ["batches/*0.json"],
        ["batches/*1.json"],
        ["batches/*2.json"],
        ["records/*/_batch.json"],
        ["records/*/_plan.json"],
        ["records/*/_SUCCESS"],
        ["batches", "records/*/_SUCCESS", "records/*/_plan.json"],
    ],
    ids=str,
)
def test_300_commits_are_landed_after_its_own_notes_were_lost(world: World, lake: Path, gone: list[str]) -> None:
    """Before, a checkpoint that was moved away lost all commits that came after, without a word."""
    three_batches(world, lake)
    lost(lake, *gone)
    world.topics[OFFSETS].append(300)
    Run(world, lake).land()
    assert records_in(lake) == world.places()
    assert len(list(lake.glob("batches/*.json"))) == 4


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        (["records/batch=0-*/topic=*"], r"part-0\.parquet is gone \(2 files with 20 records\)"),
        (["records/batch=*"], r"part-0\.parquet is gone \(6 files with 52 records\)"),
        (["records/batch=0-*", "batches/*0.json"], "batch 0 is gone, although batch 2 is there"),
        (["records/batch=1-*/_batch.json", "batches/*1.json"], "batch 1 is gone, although batch 2 is there"),
        (
            ["records/batch=2-*/_*.json", "batches/*2.json"],
            "nothing says of which offsets the files of records/batch=2-",
        ),
        (["records/*/_*.json", "batches"], "nothing says of which offsets the files of records/batch=0-"),
    ],
    ids=str,
)
def test_what_cannot_be_known_is_refused(world: World, lake: Path, gone: list[str], said: str) -> None:
    three_batches(world, lake)
    lost(lake, *gone)
    with pytest.raises(PipelineError, match=f"{said}.*--recover"):
        Run(world, lake).land()
    assert not Batches(LocalFolder(lake)).is_whole()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"v": 2}', '{"v": 1, "number": 1}', '{"v": 1, "begin": []}'])
@pytest.mark.parametrize("number", range(3))
def test_a_name_that_cannot_be_read_is_refused_and_recovered_from_the_description(
    world: World, lake: Path, number: int, text: str
) -> None:
    """As a disk leaves it that lost power; the number stays taken."""
    three_batches(world, lake)
    before = Batches(LocalFolder(lake)).landed()
    (lake / f"batches/{number:020}.json").write_text(text)
    with pytest.raises(PipelineError, match=f"{number:020}.json cannot be read .*--recover"):
        Run(world, lake).land()
    sound = Batches(LocalFolder(lake)).sound()
    assert (sound.number, sound.end, sound.files) == (before.number, before.end, before.files)


def test_a_name_that_was_renamed_is_refused(world: World, lake: Path) -> None:
    three_batches(world, lake)
    (lake / f"batches/{2:020}.json").rename(lake / f"batches/{3:020}.json")
    with pytest.raises(PipelineError, match="it is batch 2"):
        Run(world, lake).land()


def test_a_name_that_does_not_follow_is_refused(world: World, lake: Path) -> None:
    three_batches(world, lake)
    name = lake / f"batches/{1:020}.json"
    name.write_text(name.read_text().replace('"begin": {', '"begin": {"other": {"0": 1}, '))
    with pytest.raises(PipelineError, match="batch 1 does not begin where the one before it ended"):
        Run(world, lake).land()


def test_a_description_that_does_not_follow_is_refused(world: World, lake: Path) -> None:
    """Its records would be landed again, or never."""
    three_batches(world, lake)
    (attempt,) = lake.glob("records/batch=2-*")
    text = (attempt / "_batch.json").read_text().replace('"begin": {', '"begin": {"other": {"0": 1}, ')
    (attempt / "_batch.json").write_text(text)
    lost(lake, "batches/*2.json")
    with pytest.raises(PipelineError, match="batch 2 does not begin where the one before it ended"):
        Run(world, lake).land()


def finished_attempt(lake: Path, plan: Batch, note: str) -> None:
    """As a run that is killed after it wrote a copy of the files of batch 0."""
    attempt = lake / Batches(LocalFolder(lake)).new_attempt(plan, note)
    (written,) = lake.glob("records/batch=0-*")
    shutil.copytree(written, attempt, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.json"))


def test_files_of_a_recovery_that_was_killed_are_not_landed(world: World, lake: Path) -> None:
    """They may be there already: only a recovery can tell."""
    three_batches(world, lake)
    newest = batch_of((lake / f"batches/{2:020}.json").read_text())
    finished_attempt(lake, newest._replace(number=3, begin=newest.end, files=()), RECOVERY)
    Run(world, lake).land()
    assert records_in(lake) == world.places()


def test_files_that_do_not_follow_are_refused(world: World, lake: Path) -> None:
    three_batches(world, lake)
    newest = batch_of((lake / f"batches/{2:020}.json").read_text())
    finished_attempt(lake, newest._replace(number=3, files=()), PLAN)
    with pytest.raises(PipelineError, match="does not begin where the batch before it ended"):
        Run(world, lake).land()


def test_files_of_an_earlier_version_are_refused(world: World, lake: Path) -> None:
    old = lake / "records/topic=orders/day=2026-11-23/part-0.parquet"
    old.parent.mkdir(parents=True)
    old.touch()
    with pytest.raises(PipelineError, match=r"an earlier version of kshim wrote them.*--recover"):
        Run(world, lake).land()


@pytest.mark.parametrize("beside", [nothing, appended], ids=["the same", "a longer one"])
def test_a_run_beside_another_one_lands_nothing_twice(
    world: World, lake: Path, beside: Callable[[World], None]
) -> None:
    """The other one lands the same batch, or a longer one, while this one copies."""

    def land_beside() -> None:
        beside(world)
        Run(world, lake).land()

    world.while_copying = land_beside
    with pytest.raises(PipelineError, match=r"Another run landed batch 0 .* Nothing is lost"):
        Run(world, lake).land()
    assert records_in(lake) == world.places()
    appended(world)
    Run(world, lake).land()
    lost(lake, "batches")
    Run(world, lake).land()
    assert records_in(lake) == world.places()


def test_of_two_batches_of_a_number_the_one_counts_that_another_follows(lake: Path) -> None:
    batches = Batches(LocalFolder(lake))
    for attempt, begin, end in (("0-a", 0, 5), ("0-b", 0, 8), ("0-c", 0, 6), ("1-d", 8, 9)):
        number = int(attempt[0])
        path = f"records/batch={attempt}/topic=orders/day={DAY}/part-0.parquet"
        (lake / path).parent.mkdir(parents=True)
        (lake / path).touch()
        files = (LandedFile(path, "orders", DAY, end - begin),)
        begins = {"orders": {0: begin}} if begin else {}
        batch = Batch(number, number == 0, "east", "shop", {}, begins, {"orders": {0: end}}, files)
        batches.add(f"records/batch={attempt}", batch)
        lost(lake, "batches")
    for found in (batches.landed(), batches.sound()):
        assert found.end == {"orders": {0: 9}}
        assert [path.split("/")[1] for path in sorted(found.files)] == ["batch=0-b", "batch=1-d"]


def test_the_name_of_a_directory_stays(world: World, lake: Path) -> None:
    Run(world, lake, name="shop").land()
    appended(world)
    assert Run(world, lake).land().source == "shop"
    with pytest.raises(PipelineError, match="has records of the source shop, so --source cannot be store"):
        Run(world, lake, name="store").land()


def same_as(world: World) -> Callable[[object], None]:
    identity = Identity(world.cluster_id, {name: topic.id for name, topic in world.topics.items()})

    def check(landed: object) -> None:
        require_same(landed, identity, Cluster("east:9092"), "lake")  # type: ignore[arg-type]

    return check


def test_a_recovery_reads_what_a_killed_run_left_unless_it_is_of_another_cluster(
    world: World, lake: Path, tmp_path: Path
) -> None:
    other = World(OFFSETS, "orders", cluster_id="west")
    for path in each_kill(world, lake, tmp_path):
        batches = Batches(LocalFolder(path))
        sound = batches.sound()
        assert batches.unnamed_files(sound, same_as(world)) == sorted(batches.files() - sound.files.keys())
        if list(path.glob("records/*/_SUCCESS")):
            with pytest.raises(PipelineError, match="has records of the cluster east"):
                batches.unnamed_files(sound, same_as(other))
        else:
            assert batches.unnamed_files(sound, same_as(other)) == []


def test_a_recovery_takes_the_next_number_that_nobody_used(world: World, lake: Path) -> None:
    three_batches(world, lake)
    lost(lake, "batches/*1.json", "records/batch=1-*")
    sound = Batches(LocalFolder(lake)).sound()
    assert sound.number == 3
    assert {path.split("/")[1].partition("-")[0] for path in sound.files} == {"batch=0", "batch=2"}
    lost(lake, "batches/*2.json", "records/batch=2-*/_batch.json")
    assert Batches(LocalFolder(lake)).sound().number == 3, "a directory has it"
    lost(lake, "records/batch=2-*")
    (lake / f"batches/{7:020}.json").touch()
    assert Batches(LocalFolder(lake)).sound().number == 8, "a name has it"


def test_a_recovery_does_not_rely_on_batches_that_overlap(lake: Path) -> None:
    batches = Batches(LocalFolder(lake))
    for number, (begin, end) in enumerate([(0, 5), (3, 8), (5, 9), (12, 15)]):
        file = LandedFile(f"records/batch={number}-a/topic=orders/day={DAY}/part-0.parquet", "orders", DAY, end - begin)
        begins = {"orders": {0: begin}} if begin else {}
        batches.name(Batch(number, number == 0, "east", "shop", {}, begins, {"orders": {0: end}}, (file,)))
    sound = batches.sound()
    assert (sound.number, sound.end) == (4, {"orders": {0: 15}})
    assert [file.partition("/topic")[0] for file in sorted(sound.files)] == [f"records/batch={n}-a" for n in (0, 2, 3)]


def test_a_recovery_relies_on_files_that_have_as_many_records_as_their_batch_says(world: World, lake: Path) -> None:
    Run(world, lake).land()
    named = Batches(LocalFolder(lake)).sound()
    whole, damaged = sorted(named.files)
    sound = with_readable(named, {whole: 10, damaged: 9})
    assert sound.files.keys() == {whole}
    assert with_readable(named, {whole: 10}).files == sound.files
    assert gone_records(named, sound, found_again=7) == 3
    assert gone_records(named, sound, found_again=12) == 0


def test_a_recovery_says_what_nobody_has_any_more() -> None:
    deleted = [Loss("orders", 0, 3, 8), Loss("orders", 1, 3, 8)]
    assert not_covered(deleted, {("orders", 0): 5, ("orders", 1): 4}) == (Loss("orders", 1, 3, 8),)
    said = Recovered(1, 2, 3, 4, tuple(deleted), 5, ("records/a", "records/b")).sentences()
    assert len(said) == 4
    assert "orders-0: offsets 3 to 7; orders-1" in said[1]
    assert said[2].startswith("Lost: 5 records were landed in files that are gone")
    assert said[3].startswith("2 files are gone or damaged")
    assert len(Recovered(1, 2, 3, 4).sentences()) == 1


def test_a_topic_that_the_cluster_no_longer_has_is_not_taken_for_a_later_one(world: World, lake: Path) -> None:
    Run(world, lake).land()
    named = Batches(LocalFolder(lake)).sound()
    identity = Identity("east", {OFFSETS: world.topics[OFFSETS].id})
    ids = topic_ids_of(named, identity, [OFFSETS, "orders", "found"])
    assert ids == {OFFSETS: world.topics[OFFSETS].id, "orders": world.topics["orders"].id, "found": "(deleted)"}
    with pytest.raises(PipelineError, match="The topic found was recreated"):
        require_same(named._replace(topic_ids=ids), Identity("east", {"found": "new"}), Cluster("east:9092"), "lake")
