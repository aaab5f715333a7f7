"""What hardware costs: the kinds of devices and links, and the roofline model.

The figures are YAML in profiles/data, each with its source.
"""

__all__: list[str] = []
