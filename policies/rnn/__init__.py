"""The RNN placer: what Placeto is compared with.

Mirhoseini et al., *Device Placement Optimization with Reinforcement Learning*, ICML 2017. A
sequence-to-sequence network reads all groups of a graph in one order and writes a device for each;
nothing is improved step by step, and the whole placement has one reward. network.py is the policy,
train.py trains it on one graph or on several.
"""

__all__: list[str] = []
