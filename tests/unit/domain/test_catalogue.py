"""The table of errors is complete and readable."""

import pytest

from outhaul import errors
from outhaul.domain.catalogue import CATALOGUE, look_up


def kinds(base):
    return {base, *(kind for child in base.__subclasses__() for kind in kinds(child))}


@pytest.mark.parametrize("kind", sorted(kinds(errors.ExportError), key=lambda kind: kind.__name__))
def test_every_error_of_an_export_has_an_entry(kind):
    assert kind.code in CATALOGUE


def test_every_kind_has_a_code_of_its_own():
    codes = [kind.code for kind in kinds(errors.ExportError)]
    assert len(codes) == len(set(codes))


def test_no_entry_is_for_an_error_that_is_gone():
    known = {kind.code for kind in kinds(errors.OuthaulError)}
    assert set(CATALOGUE) <= known


@pytest.mark.parametrize("entry", CATALOGUE.values())
def test_entries_are_whole_sentences(entry):
    for text in (entry.meaning, entry.mend):
        assert text[0].isupper()
        assert text.endswith(".")
        assert "\n" not in text


def test_a_code_of_another_release_is_told_of_all_the_same():
    assert look_up("of_tomorrow") == look_up("export_failed")
