"""Modules for anybody's own testinfra tests: each takes testinfra's ``host``.

They use ``host.run`` alone and so work over each of its backends; the machine needs ``python3`` and nothing else.
What could not be looked at raises :class:`provision.errors.Undecided`, which the plugin reports as an error of the
test, not as its failure.
"""
