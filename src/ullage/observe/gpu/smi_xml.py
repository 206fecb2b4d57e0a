"""`nvidia-smi -q -x`: one `<gpu>` for each GPU, in the driver's order; drivers of all eras name its parts alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...evidence import Failure, Gpu, GpuProcess, Gpus
from ...masking import Masker
from ...units import MIB
from .smi_values import name_of, once, size, slice_name, told, whole

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_BEGIN, _END = "<nvidia_smi_log", "</nvidia_smi_log>"
_AGAIN = "capture it again: nvidia-smi -q -x > gpus.xml"


def parse(text: str, masker: Masker) -> Gpus | Failure:
    """The last whole document (`--loop` writes several). Only its root is parsed, without what stands before it: a
    DOCTYPE cannot bring entities in.
    """
    from xml.etree.ElementTree import ParseError, fromstring

    end = text.rfind(_END)
    begin = text.rfind(_BEGIN, 0, max(end, 0))
    if begin < 0:
        return Failure("cut", "nvidia-smi's XML without its end", _AGAIN)
    try:
        root = fromstring(text[begin : end + len(_END)])
    except ParseError as error:
        return Failure("not xml", f"nvidia-smi's XML is damaged: {error}", _AGAIN)
    return _gpus(root, masker)


def _gpus(root: Element, masker: Masker) -> Gpus:
    elements = root.findall("gpu")
    complete = whole(root.findtext("attached_gpus")) in (None, len(elements))
    gpus: list[Gpu] = []
    for place, element in enumerate(elements):
        minor = whole(element.findtext("minor_number"))  # with `-i` the place tells nothing
        number = place if complete or minor is None else minor
        gpu = _gpu(element, number, masker)
        gpus += [gpu, *(_slice(part, gpu, element, masker) for part in element.findall("mig_devices/mig_device"))]
    driver, taken_at = told(root.findtext("driver_version")), told(root.findtext("timestamp"))
    return Gpus(tuple(gpus), masker.text(driver), MIB, masker.text(taken_at))


def _gpu(element: Element, number: int, masker: Masker) -> Gpu:
    memory = {part.tag: size(part.text) for part in element.iterfind("fb_memory_usage/*")}
    return Gpu(
        number,
        masker.text(told(element.findtext("product_name"))),
        masker.text(told(element.findtext("uuid"))),
        memory.get("total"),
        memory.get("used"),
        memory.get("free"),
        memory.get("reserved"),
        _processes(element, masker),
    )


def _slice(part: Element, gpu: Gpu, parent: Element, masker: Masker) -> Gpu:
    """A MIG device: it has memory of its own, and its processes stand in the list of the GPU."""
    ids = (part.findtext("gpu_instance_id", ""), part.findtext("compute_instance_id", ""))
    processes = None if gpu.processes is None else _processes(parent, masker, ids)
    mig = slice_name("", *map(whole, ids))
    return _gpu(part, gpu.number, masker)._replace(name=gpu.name, processes=processes, mig=mig)


def _processes(element: Element, masker: Masker, ids: tuple[str, str] | None = None) -> tuple[GpuProcess, ...] | None:
    """All, or those in one slice; None where the driver does not list them ("N/A")."""
    listed = element.find("processes")
    if listed is None or (listed.text or "").strip() != told(listed.text):
        return None
    return once(
        GpuProcess(pid, name_of(info.findtext("process_name", ""), masker), size(info.findtext("used_memory")))
        for info in listed.iterfind("process_info")
        if (pid := whole(info.findtext("pid"))) is not None
        if ids is None or ids == (info.findtext("gpu_instance_id", ""), info.findtext("compute_instance_id", ""))
    )
