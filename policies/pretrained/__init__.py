"""Policies that come with dplace, one safetensors file each: see docs/policy-format.md."""

__all__: list[str] = []
