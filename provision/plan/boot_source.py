"""Where the kernel command line stands, for each boot loader: read it, edit it there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from provision.boot.cmdline import Cmdline
from provision.boot.grub import SNIPPET_FILE, GrubDefaults
from provision.boot.systemd_boot import CMDLINE_FILE, KernelCmdlineFile
from provision.evidence import Maybe, Unknown
from provision.host.model import FileState, HostModel
from provision.plan.boot_change import BootEdit
from provision.plan.digests import text_digest
from provision.plan.render import Render


class Source:
    """Where the command line stands; one subclass for each boot loader."""

    @staticmethod
    def of(model: HostModel, render: Render) -> tuple[Source, ...]:
        """Return the source of the boot loader that runs; where ESPs are set up for both, the other one's after it."""
        if model.boot.kind in ("grub", "grub-pbt"):
            others = (SystemdBootSource(model),) if model.boot.is_mixed else ()
            return (GrubSource(model, render), *others)
        if model.boot.kind == "systemd-boot":
            return (SystemdBootSource(model), *((GrubSource(model, render),) if model.boot.is_mixed else ()))
        file = model.boot.cmdline_file
        return (NoSource(file if isinstance(file, Unknown) else Unknown(unknown="the boot loader is not known")),)

    def configured(self) -> Maybe[Cmdline]:
        raise NotImplementedError

    def apply(self, edit: BootEdit) -> BootEdit:
        raise NotImplementedError


@dataclass(frozen=True)
class NoSource(Source):
    why: Unknown

    def configured(self) -> Maybe[Cmdline]:
        return self.why

    def apply(self, edit: BootEdit) -> BootEdit:
        return replace(edit, problem=self.why)


@dataclass(frozen=True)
class SystemdBootSource(Source):
    model: HostModel

    def configured(self) -> Maybe[Cmdline]:
        text = readable(self.model.files.get(CMDLINE_FILE), CMDLINE_FILE)
        if isinstance(text, Unknown):
            return text
        if text is None:
            return Unknown(
                unknown=f"{CMDLINE_FILE} does not exist: proxmox-boot-tool would go on with the running command line",
                supply=f"write the command line, root= included, to {CMDLINE_FILE}",
            )
        file = KernelCmdlineFile.parse(text)
        if not file.has_root:
            return Unknown(
                unknown=f"{CMDLINE_FILE} has no root= in its first line: proxmox-boot-tool refresh would refuse it",
                supply=f"put root= back into the first line of {CMDLINE_FILE}",
            )
        return file.cmdline

    def apply(self, edit: BootEdit) -> BootEdit:
        text = readable(self.model.files.get(CMDLINE_FILE), CMDLINE_FILE)
        assert isinstance(text, str)  # noqa: S101  (configured() has looked)
        file = KernelCmdlineFile.parse(text)
        line = file.cmdline
        for gone in edit.removed:
            line = line.remove(gone.token, keep=int(gone.extra))
        for new in edit.added:
            line = line.add(new.token)
        return replace(edit, files={CMDLINE_FILE: file.with_cmdline(line).render()}, configured=line.render())


@dataclass(frozen=True)
class GrubSource(Source):
    model: HostModel
    render: Render

    def configured(self) -> Maybe[Cmdline]:
        defaults = self._defaults()
        return defaults if isinstance(defaults, Unknown) else defaults.cmdline()

    def apply(self, edit: BootEdit) -> BootEdit:
        before = self._defaults()
        if isinstance(before, Unknown):
            return replace(edit, problem=before)
        after = before
        for gone in edit.removed:
            cut = _cut(after, gone.token, keep=int(gone.extra))
            if isinstance(cut, Unknown):
                return replace(edit, problem=cut)
            after = cut
        after = self._with_snippet(after, edit)
        line = after.cmdline()
        problem = _disagreement(line, edit)
        if problem is not None:
            return replace(edit, problem=problem)
        paths = sorted({*before.files, *after.files})
        changed = {p: after.files.get(p) for p in paths if before.files.get(p) != after.files.get(p)}
        return replace(edit, files=changed, configured=text_of(line))

    def _defaults(self) -> Maybe[GrubDefaults]:
        files: dict[str, str] = {}
        for path, state in self.model.files.items():
            if not path.startswith("/etc/default/grub"):
                continue
            text = readable(state, path)
            if isinstance(text, Unknown):
                return text
            if text is not None:
                files[path] = text
        if not files:
            return Unknown(unknown="/etc/default/grub was not captured", supply="take a new capture as root")
        return GrubDefaults(files)

    def _with_snippet(self, defaults: GrubDefaults, edit: BootEdit) -> GrubDefaults:
        """Put added tokens into our own snippet, and drop the snippet where nothing is left in it."""
        own = GrubDefaults({SNIPPET_FILE: defaults.files[SNIPPET_FILE]}) if SNIPPET_FILE in defaults.files else None
        line = own.cmdline() if own else Cmdline()
        if isinstance(line, Unknown):
            return defaults
        tokens = [*(t.raw for t in line.tokens), *(t.token for t in edit.added)]
        if not tokens:
            return defaults.with_file(SNIPPET_FILE, None)
        if not edit.added:
            return defaults
        return defaults.with_file(SNIPPET_FILE, self.render("host/grub-snippet.cfg.j2", {"tokens": tokens}))


def _cut(defaults: GrubDefaults, token: str, *, keep: int) -> Maybe[GrubDefaults]:
    """Remove every occurrence of a token but the first ``keep``, each where it stands."""
    while True:
        places = defaults.find(token)
        if isinstance(places, Unknown):
            return places
        if len(places) <= keep:
            return defaults
        if places[-1].path is None:
            return Unknown(
                unknown=f"{token} is put together from several files of /etc/default/grub.d",
                supply=f"write {token} in one place, then plan again",
            )
        defaults = defaults.remove(places[-1])


def _disagreement(line: Maybe[Cmdline], edit: BootEdit) -> Unknown | None:
    """The edited files must give what was meant: a later snippet may overwrite ours."""
    if isinstance(line, Unknown):
        return line
    lost = [t.token for t in edit.added if not line.has(t.token)]
    stays = [token for token in edit.gone if line.has(token)]
    if lost or stays:
        return Unknown(
            unknown=f"a snippet in /etc/default/grub.d after {SNIPPET_FILE} overrides GRUB_CMDLINE_LINUX_DEFAULT "
            f"({', '.join([*lost, *stays])})",
            supply="let that snippet extend the variable instead of replacing it",
        )
    return None


def readable(state: FileState | None, path: str) -> Maybe[str | None]:
    """Return a file's text if it can be written back byte for byte, ``None`` where it does not exist."""
    if state is None:
        return Unknown(unknown=f"{path} was not captured", supply="take a new capture as root")
    if isinstance(state.content, Unknown) or state.content is None:
        return state.content
    if state.sha256 != text_digest(state.content):
        return Unknown(unknown=f"{path} is no valid UTF-8", supply=f"repair the encoding of {path}")
    return state.content


def text_of(line: Maybe[Cmdline]) -> Maybe[str]:
    return line if isinstance(line, Unknown) else line.render()
