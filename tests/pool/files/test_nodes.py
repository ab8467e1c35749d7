"""Which number is which file, whatever becomes of names."""

from __future__ import annotations

from pool.files.nodes import Nodes


def test_a_number_stays_a_files_wherever_it_is_moved() -> None:
    nodes = Nodes()
    sub = nodes.seen(nodes.root, "sub", 10)
    file = nodes.seen(sub, "file", 11)
    assert (file.path, nodes.seen(sub, "file", 11)) == ("sub/file", file)
    nodes.moved(sub, nodes.root, "other")
    assert (file.path, nodes.find(nodes.root, "sub")) == ("other/file", None)
    nodes.moved(file, nodes.root, "top")
    assert (file.path, nodes.find(sub, "file"), nodes.get(file.number)) == ("top", None, file)


def test_another_file_behind_a_name_has_another_number() -> None:
    nodes = Nodes()
    file = nodes.seen(nodes.root, "file", 10)
    other = nodes.seen(nodes.root, "file", 11)
    assert (file.number != other.number, file.is_gone, other.is_gone) == (True, True, False)
    third = nodes.seen(nodes.root, "third", 12)
    nodes.moved(third, nodes.root, "file")
    assert (other.is_gone, nodes.find(nodes.root, "file"), nodes.find(nodes.root, "third")) == (True, third, None)


def test_what_the_kernel_forgets_is_forgotten_unless_somebody_has_it_open_or_it_leads_to_more() -> None:
    nodes = Nodes()
    sub = nodes.seen(nodes.root, "sub", 10)
    file = nodes.seen(sub, "file", 11)
    file.opens = 1
    nodes.forget(sub.number, 1)
    nodes.forget(file.number, 1)
    assert len(nodes) == 3
    nodes.closed(file)
    assert (len(nodes), nodes.root.children) == (1, {})
    nodes.forget(nodes.root.number, 1)
    assert nodes.get(nodes.root.number) is nodes.root
