"""The modules that travel into a guest: standard library only, Python 3.8 or newer, no file left behind.

:mod:`provision.guest.bundle` joins them to one program.  They import each other as
``from provision.guest.onboard.x import y`` and nothing else of this project.
"""
