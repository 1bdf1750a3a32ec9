"""Where a SQLite file may lie: on this machine's own disk.

On a network file system locks and shared memory do not mean what SQLite relies on, and two machines would each believe
that they own the database.  Linux says what each mount is; where nothing says it, nothing is refused.
"""

from __future__ import annotations

from pathlib import Path

from fleetwarden.domain.errors import Misconfigured

__all__ = ["network_file_system", "refuse_network_file_system"]

MOUNTS = Path("/proc/self/mountinfo")
_OVER_A_NETWORK = frozenset(
    {"afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "orangefs"}
    | {"pvfs2", "smb3", "smbfs"}
    | {"fuse.ceph", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "fuse.gcsfuse", "fuse.goofys"}
)


def network_file_system(path: Path) -> str:
    """The kind of network file system that `path` lies or would lie on, or "" for none."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    real, best, kind = path.resolve(), Path(), ""
    for line in lines:
        before, separator, after = line.partition(" - ")
        fields = before.split()
        if not separator or len(fields) < 5 or not after:
            continue
        mounted = Path(_unescaped(fields[4]))
        if real.is_relative_to(mounted) and len(mounted.parts) >= len(
            best.parts
        ):  # of two at one place the later is on top
            best, kind = mounted, after.split()[0]
    return kind if kind in _OVER_A_NETWORK else ""


def _unescaped(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def refuse_network_file_system(database: Path) -> None:
    """Raise Misconfigured if the file lies on one."""
    kind = network_file_system(database)
    if kind:
        raise Misconfigured(
            f"the database {database} lies on a network file system ({kind}), where SQLite cannot lock it",
            hint="put FLEET_DATA_DIR on a local disk, or use PostgreSQL: FLEET_STORE_URL=postgresql://…",
        )
