"""What FastAPI makes of the routes: nothing of a request waits for a thread without need."""

import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

import api.routes

# Documented, and never called.
SENT = "webhooks"


def served_routes() -> Iterator[APIRoute]:
    """Every route of every module that has some."""
    for module in pkgutil.iter_modules(api.routes.__path__):
        if module.name != SENT:
            routed = import_module(f"api.routes.{module.name}")
            router = getattr(routed, "router", None)
            yield from router.routes if router else ()


def calls_of(dependant: Dependant) -> Iterator[Callable[..., Any]]:
    """A route's function, and all that it depends on."""
    if dependant.call is not None:
        yield dependant.call
    for further in dependant.dependencies:
        yield from calls_of(further)


def test_everything_that_a_request_needs_is_a_coroutine() -> None:
    """FastAPI hands plain functions to a thread, one after another."""
    routes = list(served_routes())
    calls = {call for route in routes for call in calls_of(route.dependant)}
    assert len(calls) > len(routes) > 20
    assert [call.__qualname__ for call in calls if not iscoroutinefunction(call)] == []
