"""Plain JSON is Hjson; launch files that trireme exports are plain."""

from json import dump, dumps, load, loads  # noqa: F401
