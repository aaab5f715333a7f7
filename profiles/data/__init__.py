"""The shipped figures of devices and links, as YAML files read by dplace.profiles.

Only data: add a file here and it is found by its name.
"""

__all__: list[str] = []
