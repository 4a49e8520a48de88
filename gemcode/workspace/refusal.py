"""Turn what the operating system said into one sentence for the model and the person.

The sentence names the path as it was asked for, never where a link would have led.
"""

import errno
import os

from gemcode.agent.errors import ToolError

_BY_CODE = {
    errno.ENOENT: ("not_found", "{path} does not exist."),
    errno.ENOTDIR: ("not_a_directory", "A part of {path} that must be a directory is none."),
    errno.EISDIR: ("is_a_directory", "{path} is a directory."),
    errno.ELOOP: ("symlink", "{path} goes through a symbolic link that may not be followed."),
    errno.EMLINK: ("symlink", "{path} goes through a symbolic link that may not be followed."),
    errno.EXDEV: ("outside_project", "{path} leads outside the project."),
    errno.EACCES: ("permission", "The system does not permit access to {path}."),
    errno.EPERM: ("permission", "The system does not permit access to {path}."),
    errno.EROFS: ("read_only", "{path} is on a read-only file system."),
    errno.ENOSPC: ("no_space", "There is no space left for {path}."),
    errno.EDQUOT: ("quota", "Your disk quota leaves no room for {path}."),
    errno.EFBIG: ("too_large", "{path} would be larger than the system allows."),
    errno.ENXIO: ("not_a_file", "{path} is not a regular file."),
    errno.ENODEV: ("not_a_file", "{path} is not a regular file."),
    errno.ENAMETOOLONG: ("invalid_path", "{path} has a name that is too long for this file system."),
    errno.EILSEQ: ("invalid_path", "{path} is not a name that this file system can hold."),
    errno.ESTALE: ("stale", "{path} changed while it was being opened; try again."),
}


def tool_error(error: OSError, path: str) -> ToolError:
    """The refusal that stands for `error`, met while working on `path`."""
    code = error.errno or errno.EIO
    if code in _BY_CODE:
        kind, sentence = _BY_CODE[code]
        return ToolError(kind, sentence.format(path=path))
    return ToolError("io_error", f"The system reported an error for {path}: {os.strerror(code)}.", errno=code)
