"""Files that nvidia-smi wrote, of several driver eras: in the drivers' forms, with values of our own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.evidence import Failure, Gpu, GpuProcess, Gpus
from ullage.masking import Masker
from ullage.observe.gpu import of_text
from ullage.units import MIB

DATA = Path(__file__).parents[1] / "data" / "gpu"
MASKER = Masker()
UUID = "GPU-0a1b2c3d-0000-4000-8000-00000000000{}"
TOLD = ("r418.xml", "r470-mig.xml", "r515.xml", "r535.xml", "r570.xml", "r440.txt", "r535-mig.txt")


def text_of(name: str) -> str:
    return (DATA / name).read_text()


def gpus(text: str) -> Gpus:
    found = of_text(text, MASKER)
    assert isinstance(found, Gpus), found
    assert found.step_bytes == MIB
    return found


def failure(text: str) -> Failure:
    found = of_text(text, MASKER)
    assert isinstance(found, Failure), found
    return found


def mib(gpu: Gpu) -> tuple[int | None, ...]:
    """(total, used, free, reserved) in MiB."""
    return tuple(None if size is None else size // MIB for size in gpu[3:7])


def process(pid: int, name: str, size: int | None) -> GpuProcess:
    return GpuProcess(pid, name, None if size is None else size * MIB)


@pytest.mark.parametrize(
    ("name", "driver", "taken_at", "memory"),
    [
        ("r418.xml", "418.87.00", "Tue Mar  3 09:12:44 2020", (32480, 30120, 2360, None)),
        ("r470-mig.xml", "470.82.01", "Mon Nov 15 16:40:01 2021", (40536, 17420, 23116, None)),
        ("r515.xml", "515.65.01", "Fri Aug 12 08:00:30 2022", (24576, 21003, 3000, 573)),
        ("r535.xml", "535.154.05", "Sat Feb 10 22:15:09 2024", (81559, 74215, 6778, 566)),
        ("r550-hidden.xml", "550.90.07", "Wed Jul 10 11:11:11 2024", (46068, 40211, 5257, 600)),
        ("r570.xml", "570.124.06", "Thu Nov 26 20:59:37 2026", (97887, 69551, 27698, 638)),
        ("r580-gb10.xml", "580.95.05", "Sun Nov  9 09:26:12 2025", (None, None, None, None)),
        ("r440.txt", "440.31", "Tue Jun  9 20:18:39 2020", (16278, 11491, None, None)),
        ("r535-mig.txt", "535.161.08", "Wed Feb 14 10:00:00 2024", (40960, 9875, None, None)),
        ("r580-gb10.txt", "580.95.05", "Sun Nov  9 09:26:12 2025", (None, None, None, None)),
    ],
)
def test_drivers_of_all_eras(name: str, driver: str, taken_at: str, memory: tuple[int | None, ...]) -> None:
    found = gpus(text_of(name))
    assert (found.driver, found.taken_at, mib(found.gpus[0])) == (driver, taken_at, memory)


def test_processes_of_an_xml_file() -> None:
    first, second = gpus(text_of("r570.xml")).gpus
    assert first.processes == (
        process(2143, "sglang::scheduler_TP0", 69020),
        process(2500, "python3 embed.py --api-key ***", 510),
        process(1800, "/usr/lib/xorg/Xorg", 4),
    )
    assert (second.processes, mib(second)) == ((), (97887, None, None, 638))


def test_a_size_that_the_driver_does_not_tell_is_none_and_not_zero() -> None:
    [gpu] = gpus(text_of("r515.xml")).gpus
    assert gpu.processes == (process(951, "python", 20990), process(1203, "/usr/lib/xorg/Xorg", None))


def test_processes_that_are_not_listed_are_not_none_at_all() -> None:
    assert gpus(text_of("r550-hidden.xml")).gpus[0].processes is None
    assert gpus(text_of("r418.xml")).gpus[1].processes == ()


@pytest.mark.parametrize("name", ["r580-gb10.xml", "r580-gb10.txt"])
def test_a_gpu_on_the_memory_of_the_host(name: str) -> None:
    """What computes and draws is listed twice with the same memory, and counts once."""
    [gpu] = gpus(text_of(name)).gpus
    assert gpu.name == "NVIDIA GB10"
    assert gpu.processes == (process(4174, "/usr/lib/xorg/Xorg", 84), process(96001, "VLLM::EngineCore", 92908))


def test_the_slices_of_an_xml_file() -> None:
    whole, large, small = gpus(text_of("r470-mig.xml")).gpus
    server = process(7701, "/usr/bin/python3", 17403)
    assert [(gpu.mig, gpu.number, gpu.name) for gpu in (whole, large, small)] == [
        ("", 0, "NVIDIA A100-SXM4-40GB"),
        ("slice 2", 0, "NVIDIA A100-SXM4-40GB"),
        ("slice 7", 0, "NVIDIA A100-SXM4-40GB"),
    ]
    assert (mib(large), large.processes) == ((20096, 17411, 2684, None), (server,))
    assert (mib(small), small.processes) == ((4864, 3, 4861, None), ())
    assert whole.processes == (server,)


def test_the_slices_of_a_table() -> None:
    found = gpus(text_of("r535-mig.txt")).gpus
    assert [(gpu.number, gpu.mig, mib(gpu)[:2]) for gpu in found] == [
        (0, "", (40960, 9875)),
        (0, "slice 3", (9856, 9812)),
        (0, "slice 4/1", (9856, 25)),
        (1, "", (40960, 4)),
    ]
    assert [gpu.processes for gpu in found] == [
        (server := (process(5120, "VLLM::EngineCore", 9780),)),
        server,
        (),
        (),
    ]


def test_one_gpu_of_several_keeps_its_number() -> None:
    """With `-i 7` its place in the file tells nothing; the number of its device file does."""
    assert [gpu.number for gpu in gpus(text_of("r535.xml")).gpus] == [7]


def test_processes_of_an_old_table() -> None:
    first, second = gpus(text_of("r440.txt")).gpus
    assert first.processes == (process(8006, "python", 1331), process(8850, "/opt/my server/python", 10150))
    assert (second.processes, second.number) == ((), 1)


def test_a_table_that_was_cut_off_before_its_processes() -> None:
    text = text_of("r440.txt")
    assert gpus(text[: text.index("| Processes:")]).gpus[0].processes is None
    assert failure(text[: text.index("|   0  Quadro")]).status == "cut"


def test_a_capture_of_a_watch_that_was_cut_has_the_processes_of_the_cycle_before() -> None:
    text = text_of("r440.txt")
    listed = text.index("| Processes:")
    found = gpus(text[listed:] + text[:listed].replace("11491MiB", "11600MiB"))
    assert [gpu.processes for gpu in found.gpus] == [gpu.processes for gpu in gpus(text).gpus]
    assert (mib(found.gpus[0])[1], "of the capture before" in found.remark) == (11600, True)
    assert not gpus(text).remark
    whole = gpus(text + text[: text.index("|   0  Quadro")])
    assert (whole.gpus, whole.remark) == (gpus(text).gpus, "")


@pytest.mark.parametrize("head", ["", "| NVIDIA-SMI 440.31       Driver Version: 440.31 |\n| GPU  Name |\n"])
def test_a_list_of_processes_alone(head: str) -> None:
    text = text_of("r440.txt")
    (found,) = gpus(text[text.index("| Processes:") :] + head).gpus
    assert (found.number, mib(found)) == (0, (None, None, None, None))
    assert found.processes == (process(8006, "python", 1331), process(8850, "/opt/my server/python", 10150))


@pytest.mark.parametrize("name", TOLD)
def test_of_several_captures_in_one_file_the_last_counts(name: str) -> None:
    text = text_of(name)
    older = text.replace("2020", "2019").replace("MiB", "  MiB") + "\n"
    assert gpus(older + text) == gpus(text)


def test_columns_are_known_by_their_header() -> None:
    found = gpus(text_of("query.csv"))
    assert found.driver == "570.124.06"
    assert [(gpu.number, gpu.uuid, mib(gpu)) for gpu in found.gpus] == [
        (0, UUID.format(0), (143771, 130004, 13054, 713)),
        (1, UUID.format(1), (143771, None, None, 713)),
    ]
    assert [gpu.processes for gpu in found.gpus] == [
        (process(1328667, "/usr/local/bin/python3.10", 129984),),
        (process(1425258, "chrome --type=gpu-process --a=1, --b=2", None),),
    ]


def test_numbers_without_their_unit_are_mib_and_a_later_row_counts() -> None:
    found = gpus(text_of("query-nounits.csv"))
    assert [(gpu.name, mib(gpu), gpu.processes) for gpu in found.gpus] == [("Tesla T4", (15360, 3, None, None), None)]
    assert found.taken_at == "2026/11/26 20:59:42.124"


def test_processes_alone() -> None:
    """Of a GPU of which nothing else is known; one that runs on none shows that there are none."""
    text = text_of("query.csv")
    first, second = gpus(text[text.index("gpu_uuid") :]).gpus
    assert (first.number, first.uuid, mib(first)) == (-1, UUID.format(0), (None,) * 4)
    assert first.processes == (process(1328667, "/usr/local/bin/python3.10", 129984),)
    assert second.uuid == UUID.format(1)
    assert gpus("pid, process_name, used_gpu_memory [MiB]\n").gpus == ()


def test_values_without_a_header_are_refused_with_what_to_do() -> None:
    found = failure(text_of("query-noheader.csv"))
    assert found.status == "no header"
    assert "leave out noheader: nvidia-smi --query-gpu=index,name,uuid" in found.advice


def test_a_gpu_that_does_not_answer_is_told_beside_the_others() -> None:
    lost = "Unable to determine the device handle for GPU 0000:07:00.0: Unknown Error"
    found = gpus(f"index, memory.total [MiB], memory.used [MiB]\n{lost}\n1, 46068 MiB, 70 MiB\n{lost}\n")
    assert [gpu.number for gpu in found.gpus] == [1]
    assert found.remark == f"nvidia-smi says: {lost}"


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that it runs.\n\n",
        "No devices were found\n",
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.1\n",
    ],
)
def test_a_driver_that_does_not_work_is_told_in_its_words(text: str) -> None:
    found = failure(text)
    assert (found.status, found.reason) == ("no GPU", f"nvidia-smi says: {text.splitlines()[0]}")


def test_the_report_for_people_is_refused_with_what_to_do() -> None:
    found = failure("\n==============NVSMI LOG==============\n\nDriver Version : 550.1\nAttached GPUs : 1\n")
    assert found.advice == "capture nvidia-smi -q -x"


@pytest.mark.parametrize("cut", [300, 2000, -20])
def test_xml_that_was_cut_off(cut: int) -> None:
    assert failure(text_of("r570.xml")[:cut]).status == "cut"


def test_entities_are_not_expanded() -> None:
    """What stands before the root is not parsed, so that a DOCTYPE can neither define nor fetch anything."""
    bomb = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>\n'
    text = bomb + "<nvidia_smi_log><gpu><product_name>&b;</product_name></gpu></nvidia_smi_log>"
    assert failure(text).status == "not xml"
    assert "undefined entity" in failure(text).reason


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[2026-11-29 10:00:00] server_args=ServerArgs(model_path='/models/a')",
        '{"max_total_num_tokens": 1}',
        "a, b, c\n1, 2, 3\n",
        "name, uuid\nNVIDIA H200, GPU-1\n",
        "python -m sglang.launch_server --model-path /models/a",
        "10 MiB\n20 MiB\n",
    ],
)
def test_other_texts_are_left_to_others(text: str) -> None:
    assert of_text(text, MASKER) is None


COLUMNS = {
    "index": st.just("7"),
    "name": st.text("abcXYZ 0123", min_size=1).filter(str.strip),
    "memory.total [MiB]": st.integers(0, 10**6).map(lambda n: f"{n} MiB") | st.just("[N/A]"),
    "memory.used [MiB]": st.integers(0, 10**6).map(str) | st.just("[Not Supported]"),
    "memory.free [MiB]": st.integers(0, 10**6).map(lambda n: f"{n} MiB") | st.just("[Unknown Error]"),
    "memory.reserved [MiB]": st.just("[Requested functionality has been deprecated]"),
    "power.draw [W]": st.just("71.20 W"),
    "pstate": st.just("P0"),
}


@given(st.data(), st.permutations(list(COLUMNS)), st.integers(1, len(COLUMNS)))
def test_any_columns_in_any_order(data: st.DataObject, order: list[str], count: int) -> None:
    columns = order[:count]
    row = {name: data.draw(COLUMNS[name]) for name in columns}
    found = of_text("\n".join((", ".join(columns), ", ".join(row.values()))), MASKER)
    if not any(name.startswith("memory.") for name in columns):
        assert found is None
        return
    assert isinstance(found, Gpus)
    [gpu] = found.gpus

    def told(name: str) -> int | None:
        digits = row.get(name, "").removesuffix(" MiB")
        return int(digits) * MIB if digits.isdigit() else None

    assert gpu.number == (7 if "index" in columns else 0)
    assert gpu.name == row.get("name", "").strip()
    assert gpu.total_bytes == told("memory.total [MiB]")
    assert gpu.used_bytes == told("memory.used [MiB]")
    assert gpu.free_bytes == told("memory.free [MiB]")
    assert gpu.reserved_bytes is None


@given(st.sampled_from(sorted(p.name for p in DATA.iterdir() if p.suffix != ".c")), st.data())
def test_whatever_a_file_has_lost_it_is_read_or_refused(name: str, data: st.DataObject) -> None:
    text = text_of(name)
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, len(text)))
    found = of_text(text[:begin] + data.draw(st.text(max_size=5)) + text[end:], MASKER)
    assert found is None or isinstance(found, Failure | Gpus)
    if isinstance(found, Gpus):
        assert all(size is None or size >= 0 for gpu in found.gpus for size in gpu[3:7])
