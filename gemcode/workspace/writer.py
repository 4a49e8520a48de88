"""The one way a project file changes: compare-and-swap. Backup, journal, temporary file, exchange, verify, retain.

Nothing is truncated in place and no name is removed that could hold a user's bytes. What the person was shown (the hash
of a Snapshot) is what gets replaced, or nothing is.
"""

import contextlib
import errno
from typing import Literal, NoReturn

from gemcode.agent.errors import ToolError
from gemcode.workspace import names, osfs
from gemcode.workspace.attributes import copy_attributes, create_temporary
from gemcode.workspace.journal import Intent, Status
from gemcode.workspace.objects import hash_of
from gemcode.workspace.proposal import Proposal, Snapshot, WriteResult, propose, snapshot
from gemcode.workspace.recovery import remove_directories
from gemcode.workspace.refusal import tool_error
from gemcode.workspace.root import OpenFile, Parent, Root
from gemcode.workspace.store import Store
from gemcode.workspace.swap import ASIDE, Swap, identity_at

__all__ = ["Proposal", "Snapshot", "WriteResult", "propose", "snapshot", "write"]

WEAKER = "Weaker guarantee: this file system can't exchange two names in one step."


def write(root: Root, store: Store, proposal: Proposal, *, turn: str, reason: str) -> WriteResult:
    """Carry out a confirmed proposal. ToolError when nothing was written, with one exception that says so itself."""
    store.notices += store.displaced.recheck()
    before = proposal.before
    with contextlib.ExitStack() as stack:
        try:
            parent = root.open_parent(proposal.path)
            stack.callback(_close, parent)
            if (parent.identity, parent.missing) != (before.parent, before.missing):
                raise _stale(before, "is in another directory now")
            stack.enter_context(store.write_lock(parent.identity, parent.leaf))
            return _Write(root, store, proposal, turn, reason).run(parent)
        except ToolError as error:
            if error.kind != "stale":
                raise
            kept = _keep(store, proposal, turn)
            raise ToolError("stale", error.message, **error.details, kept=kept) from error
        except OSError as error:
            raise tool_error(error, proposal.path) from error


class _Write:
    """One write on its way, from the last look at the old file to the end in the journal."""

    def __init__(self, root: Root, store: Store, proposal: Proposal, turn: str, reason: str) -> None:
        self.root = root
        self.store = store
        self.journal = store.area.journal
        self.proposal = proposal
        self.before = proposal.before
        self.path = proposal.path
        self.turn = turn
        self.reason = reason
        self.new = None if proposal.after is None else hash_of(proposal.after)
        self.temporary = osfs.random_name(names.TEMPORARY_PREFIX)
        self.id = ""
        self.notes: list[str] = []

    def run(self, parent: Parent) -> WriteResult:
        with contextlib.ExitStack() as stack:
            old = self._require_unchanged(parent)
            if old is not None:
                stack.callback(_close, old)
            self._prepare(parent)
            place, swap, ready = parent, None, False
            try:
                if parent.missing:
                    place = self.root.open_parent(self.path, create=True)
                    stack.callback(_close, place)
                swap = Swap(place.fd, place.leaf, self.temporary, self.store.limits.file_bytes, new=self.new)
                self._build(swap, old)
                self.journal.ready(self.id, swap.ours, place.identity)
                ready = True
                sure = self._switch(swap, old)
            except BaseException:
                self._abandon(place, swap, ready=ready)
                raise
            return self._finish(swap) if sure else self._result("durability_unknown")

    def _require_unchanged(self, parent: Parent) -> OpenFile | None:
        file = parent.open_leaf()
        if file is None:
            if self.before.exists:
                raise _stale(self.before, "was removed")
            return None
        try:
            if not self.before.exists:
                raise _stale(self.before, "was created by another program")
            found = file.read(self.store.limits.file_bytes)
            if found != self.before.data:
                more = found.count(b"\n") - (self.before.data or b"").count(b"\n")
                raise _stale(self.before, "changed on disk", time=round(file.stat.st_mtime), lines=more)
        except BaseException:
            _close(file)
            raise
        return file

    def _prepare(self, parent: Parent) -> None:
        """The backup and the intent, both durable; without them nothing is written."""
        before, after = self.before, self.proposal.after
        try:
            self.store.require_space(max(len(before.data or b""), len(after or b"")), parent.fd)
            if before.data is not None:
                self.store.back_up(before.data)
            about = (before.hash, self.new, before.mode, self.turn, self.reason)
            self.id = self.journal.begin(Intent(self.path, *about, self.temporary, before.missing))
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise
            message = f"The backup of {self.path} could not be made ({error.strerror}), so nothing was written."
            raise ToolError("backup_failed", message, errno=error.errno) from error

    def _build(self, swap: Swap, old: OpenFile | None) -> None:
        """The complete new file under the temporary name, durable, with the old one's mode and attributes."""
        if self.proposal.after is None:
            swap.ours = (old.stat.st_dev, old.stat.st_ino) if old else (0, 0)
            return
        mode = self.proposal.mode
        fd = create_temporary(swap.fd, self.temporary, private=old is not None or mode is not None)
        try:
            status = osfs.fstat(fd)
            swap.ours = (status.st_dev, status.st_ino)
            osfs.write_all(fd, self.proposal.after)
            if old is not None:
                self.notes += copy_attributes(old, fd, self.path)
            elif mode is not None:
                osfs.fchmod(fd, mode & 0o777)
            osfs.fsync(fd)
        finally:
            osfs.close(fd)

    def _switch(self, swap: Swap, old: OpenFile | None) -> bool:
        """The one step that counts. True when it happened, False when the system does not say; else it raises."""
        try:
            if old is None:
                swap.create()
            elif self.new is None:
                swap.take_out()
            else:
                swap.exchange((old.stat.st_dev, old.stat.st_ino))
        except FileExistsError as error:
            raise _stale(self.before, "was saved by another program") from error
        except FileNotFoundError as error:
            raise _stale(self.before, "was removed") from error
        except OSError:
            try:
                at_path, at_temporary = identity_at(swap.fd, swap.leaf), identity_at(swap.fd, self.temporary)
            except OSError:
                return False
            happened = at_temporary != swap.ours
            if old is None or self.new is None:
                happened = (at_path == swap.ours) == (old is None)
            if not happened:
                raise
            swap.held = swap.held or ("" if old is None else self.temporary)
        return True

    def _abandon(self, place: Parent, swap: Swap | None, *, ready: bool) -> None:
        """Nothing was switched: take away what is provably ours. What is not is left to recovery, by the journal."""
        with contextlib.suppress(OSError, ToolError):
            if swap is not None:
                at_path = identity_at(swap.fd, swap.leaf)
                for name in (self.temporary, self.temporary + ASIDE):
                    found = identity_at(swap.fd, name)
                    ours = found == at_path or not ready or (found == swap.ours and self.new is not None)
                    if found is not None and not ours:
                        return
                    if found is not None:
                        osfs.unlink(swap.fd, name)
            remove_directories(self.root, self.before.missing)
            self.journal.end(self.id, "not_written")

    def _finish(self, swap: Swap) -> WriteResult:
        """The new content is in place. From here on no error may claim that nothing was written."""
        if swap.weaker:
            self.notes.append(WEAKER)
        if swap.held:
            problem = None
            try:
                seen = swap.look(swap.held)
                unchanged = seen is not None and seen.content == self.before.hash
            except OSError as error:
                unchanged, problem = False, error
            if not unchanged:
                self._conflict(swap, problem)
        result = self._result(self._seal(swap, "written"))
        remove_directories(self.root, self.proposal.remove)
        return result

    def _conflict(self, swap: Swap, problem: OSError | None) -> NoReturn:
        """Another program saved between the last look and the exchange: its file goes back, both versions are kept."""
        with contextlib.suppress(OSError):
            swap.give_back()
        ours_stayed = True
        with contextlib.suppress(OSError):
            ours_stayed = self.new is not None and identity_at(swap.fd, swap.leaf) == swap.ours
        kept = _keep(self.store, self.proposal, self.turn)
        self._seal(swap, "written" if ours_stayed else "not_written")
        notices = self.store.displaced.recheck()
        self.store.notices += notices
        if ours_stayed:
            what = "gemcode's version is in place, because the other could not be put back"
        elif problem is not None:
            raise tool_error(problem, self.path)
        else:
            what = "another program saved it at the same moment, so its version was left in place"
        hint = f"; the proposal is kept: gemcode restore {kept}" if kept else ""
        details = {"kept": kept, "written": ours_stayed, "notices": notices}
        raise ToolError("conflict", f"{self.path}: {what}{hint}.", **details)

    def _seal(self, swap: Swap, status: Status) -> Status:
        """Take what was displaced out of the project, make it all durable, and end the journal's record."""
        try:
            for name in (self.temporary, self.temporary + ASIDE):
                seen = swap.look(name)
                if seen is not None and seen.identity == identity_at(swap.fd, swap.leaf):
                    osfs.unlink(swap.fd, name)  # a second name of the very file that is in place
                elif seen is not None:
                    known = self.new if swap.pristine(seen) else self.before.hash
                    self.store.displaced.retain(swap.fd, name, self.id, self.path, known or "")
            try:
                osfs.fsync(swap.fd)
            except OSError as error:
                self.notes.append(f"The disk did not confirm the write: {error.strerror}.")
                status = "durability_unknown" if status == "written" else status
            self.journal.end(self.id, status)
        except (OSError, ToolError) as error:
            self.notes.append(f"The system reported an error after the write: {error}")
            return "durability_unknown"  # recovery finds the record open and settles it
        return status

    def _result(self, status: Status) -> WriteResult:
        said: Literal["written", "durability_unknown"] = "written" if status == "written" else "durability_unknown"
        return WriteResult(said, self.proposal.action, self.id, self.new, tuple(self.notes))


def _keep(store: Store, proposal: Proposal, turn: str) -> str:
    """Set the proposal aside; the id that brings it back, "" where it can't be kept."""
    if proposal.after is None:
        return ""
    try:
        return store.area.keep(proposal.path, proposal.after, "proposed, but not written: conflict", turn)
    except (OSError, ToolError):
        return ""


def _stale(before: Snapshot, what: str, **details: object) -> ToolError:
    message = f"{before.path} {what} since it was shown, so nothing was written; read it again."
    return ToolError("stale", message, what=what, **details)


def _close(closing: OpenFile | Parent) -> None:
    """An error of close must not turn a finished write into a failure."""
    with contextlib.suppress(OSError):
        closing.close()
