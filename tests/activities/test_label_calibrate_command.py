"""The command that learns a mark: its report, its profile and its exit codes."""

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from activities.imaging.calibrate import main
from activities.imaging.labels.drawing import draw_label
from activities.imaging.labels.lettering import own_profile
from activities.imaging.labels.mark import Mark
from activities.imaging.labels.profile import LabelProfile, Sizing
from tests.activities.label_pictures import Pixels, flat, picture

Captured = pytest.CaptureFixture[str]
SIDE = 200


@pytest.fixture(scope="module")
def mark() -> Mark:
    return own_profile("AI made", opacity=0.5).mark_on(SIDE, SIDE)


@pytest.fixture
def probes(mark: Mark, tmp_path: Path) -> list[str]:
    levels = (0, 255)
    return saved(tmp_path, [draw_label(flat(level, SIDE, SIDE), mark) for level in levels])


def saved(folder: Path, samples: list[Pixels], suffix: str = "png") -> list[str]:
    paths = [folder / f"{at}.{suffix}" for at in range(len(samples))]
    for path, sample in zip(paths, samples, strict=True):
        Image.fromarray(sample).save(path)
    return [str(path) for path in paths]


def test_a_usable_profile_is_written_and_reported(
    probes: list[str], mark: Mark, tmp_path: Path, capsys: Captured
) -> None:
    output = tmp_path / "profile.json"
    assert main(["--output", str(output), "--name", "vendor", *probes]) == 0
    profile = LabelProfile.read(output)
    assert (profile.name, profile.sizing) == ("vendor", Sizing.SHARE)
    assert abs(profile.mark_on(SIDE, SIDE).alpha.max() - 0.5) < 0.02
    report = capsys.readouterr().out
    assert report.endswith("\nusable\n")
    assert "found      in 2 of 2" in report
    assert "note" not in report


def test_size_and_box_can_be_given(probes: list[str], mark: Mark, tmp_path: Path) -> None:
    output = tmp_path / "profile.json"
    box = f"{mark.left},{mark.top},{mark.width},{mark.height}"
    assert main(["--output", str(output), "--fixed-size", "--box", box, *probes]) == 0
    profile = LabelProfile.read(output)
    assert profile.sizing is Sizing.PIXELS
    assert profile.mark_on(SIDE, SIDE).box == mark.box
    assert profile.mark_on(1000, 1000).height == mark.height


def test_a_profile_that_is_not_usable_is_said_to_be(
    mark: Mark, tmp_path: Path, capsys: Captured
) -> None:
    samples = saved(tmp_path, [draw_label(picture(seed, SIDE, SIDE), mark) for seed in (0, 1, 2)])
    box = f"{mark.left},{mark.top},{mark.width},{mark.height}"
    assert main(["--output", str(tmp_path / "p.json"), "--box", box, *samples]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("not usable: a recovered pixel")
    assert LabelProfile.read(tmp_path / "p.json").made_from == (SIDE, SIDE)


def test_compressed_samples_are_remarked_on(mark: Mark, tmp_path: Path, capsys: Captured) -> None:
    levels = (0, 255)
    samples = saved(
        tmp_path, [draw_label(flat(level, SIDE, SIDE), mark) for level in levels], "jpg"
    )
    main(["--output", str(tmp_path / "p.json"), *samples])
    assert "note       compressed samples blur the mark" in capsys.readouterr().out


def refused(arguments: list[str], output: Path, capsys: Captured) -> str:
    """The one line on the error output of a command that wrote nothing."""
    assert main(["--output", str(output), *arguments]) == 2
    assert not output.is_file()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_bad_samples_are_refused_in_one_line(
    probes: list[str], tmp_path: Path, capsys: Captured
) -> None:
    output = tmp_path / "profile.json"
    damaged, other = tmp_path / "damaged.png", tmp_path / "other.png"
    damaged.write_bytes(Path(probes[0]).read_bytes()[:-30])
    Image.fromarray(flat(9, 64, 64)).save(other)
    assert "at least two samples" in refused(probes[:1], output, capsys)
    assert "damaged.png is not an image: " in refused([probes[0], str(damaged)], output, capsys)
    assert "of one size" in refused([probes[0], str(other)], output, capsys)
    assert "none.png can't be read" in refused([str(tmp_path / "none.png"), "x"], output, capsys)
    assert "samples must differ" in refused([str(other), str(other)], output, capsys)
    assert "does not lie inside" in refused([*probes, "--box", "0,0,900,9"], output, capsys)


def test_samples_that_no_mark_is_removed_from_are_refused_by_name(
    probes: list[str], tmp_path: Path, capsys: Captured
) -> None:
    output, black = tmp_path / "profile.json", Image.open(probes[0])
    turned, clear = Image.Exif(), black.convert("RGBA")
    turned[0x0112] = 6
    clear.putalpha(100)
    black.save(tmp_path / "turned.jpg", exif=turned)
    black.convert("CMYK").save(tmp_path / "cmyk.jpg")
    Image.new("I;16", black.size).save(tmp_path / "deep.png")
    clear.save(tmp_path / "clear.png")
    for name, why in (
        ("turned.jpg", "EXIF orientation 6"),
        ("cmyk.jpg", "CMYK"),
        ("deep.png", "8 bits"),
        ("clear.png", "it is transparent"),
    ):
        told = refused([str(tmp_path / name), probes[1]], output, capsys)
        assert f"{name} can't be learnt from: " in told
        assert why in told


def test_a_sample_is_never_written_over(probes: list[str], capsys: Captured) -> None:
    before = Path(probes[0]).read_bytes()
    with pytest.raises(SystemExit, match="2"):
        main(["--output", *probes, probes[1]])
    assert "must be a file that ends in .json" in capsys.readouterr().err
    assert Path(probes[0]).read_bytes() == before


def test_folder_of_the_output_is_made(probes: list[str], tmp_path: Path) -> None:
    output = tmp_path / "labels" / "vendor.json"
    assert main(["--output", str(output), *probes]) == 0
    assert LabelProfile.read(output).name == "calibrated"


def test_an_output_that_can_not_be_written_is_refused(probes: list[str], capsys: Captured) -> None:
    assert "0.png" in refused(probes, Path(probes[0]) / "profile.json", capsys)


@pytest.mark.parametrize("box", ["1,2,3", "a,b,c,d", "1,2,3,4,5"])
def test_a_box_is_four_whole_numbers(box: str, probes: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--output", "p.json", "--box", box, *probes])
    assert exit_.value.code == 2
    assert "must be four whole numbers" in capsys.readouterr().err


def test_the_command_runs_as_a_program(probes: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "activities.imaging.calibrate"]
    command += ["--output", str(tmp_path / "profile.json"), *probes]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("\nusable\n")
