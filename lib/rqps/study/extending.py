"""A study that extends another: what it does not say itself it takes over, and of the parameters each by itself."""

from collections.abc import Iterator, Sequence
from typing import Any

from rqps.study.document import Document
from rqps.study.problems import Place, Problem


def complete(studies: dict[str, Any]) -> dict[str, Any]:
    """The studies of a file as if each said all of itself; circles and unknown names are told of elsewhere.

    >>> complete({"small": {"rounds": 6, "parameters": {"tables": 1, "seconds": 1}},
    ...           "big": {"extends": "small", "parameters": {"seconds": 600}}})["big"]
    {'rounds': 6, 'parameters': {'tables': 1, 'seconds': 600}, 'extends': 'small'}
    """
    return {name: _whole(name, studies, ()) for name in studies}


def _whole(name: str, studies: dict[str, Any], below: tuple[str, ...]) -> Any:
    study = studies[name]
    parent = study.get("extends") if isinstance(study, dict) else None
    if not isinstance(parent, str) or parent not in studies or parent in (*below, name):
        return study
    taken = _whole(parent, studies, (*below, name))
    if not isinstance(taken, dict):
        return study
    whole = {**taken, **study}
    if all(isinstance(one.get("parameters"), dict) for one in (taken, study)):
        whole["parameters"] = {**taken["parameters"], **study["parameters"]}
    return whole


def told_once(problems: Sequence[Problem], document: Document) -> Iterator[Problem]:
    """Without those that a study has only because it took them over, which are told of where they are written."""
    known = {(problem.place, problem.text) for problem in problems}
    for problem in problems:
        parents = _taken_from(problem.place, document)
        if not any((place, problem.text) in known for place in parents):
            yield problem


def _taken_from(place: Place, document: Document) -> Iterator[Place]:
    """The same place in the studies that one extends, if it does not stand in the study itself."""
    seen = {place}
    while len(place) > 2 and place[0] == "studies" and place not in document.lines:
        if ("studies", place[1], "extends") not in document.lines:
            return
        place = ("studies", document.value["studies"][place[1]]["extends"], *place[2:])
        if place in seen:  # a circle
            return
        seen.add(place)
        yield place
