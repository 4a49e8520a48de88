"""The names that need care, as data. All are compared in folded form (see names.fold), at any depth.

Not here: any decision about what to do with them; names.classify and the approval policy decide.
"""

import re

TEMPORARY_PREFIX = ".gemcode-tmp-"

_VERSION_CONTROL = "belongs to version control"
OURS = "belongs to gemcode"
_PYTHON_START = "runs whenever Python starts"
_NEVER = {
    ".git": _VERSION_CONTROL,
    ".hg": _VERSION_CONTROL,
    ".svn": _VERSION_CONTROL,
    ".jj": _VERSION_CONTROL,
    ".gemcode": OURS,
    ".gemcodeignore": OURS,
    ".gemcode.toml": OURS,
    "sitecustomize.py": _PYTHON_START,
    "usercustomize.py": _PYTHON_START,
}
# NTFS may answer to a made-up short name too: git~1 for .git.
_NEVER_SHORT = re.compile(r"(?:git|hg|svn|jj|gemcod|sitecu|userc[ou]|userus)~[0-9]+(?:\.py)?|gi[0-9a-f]{4}~[0-9]+")

# In ASCII every spelling of a name above has one of these; a name without any is not worth folding. By line: it is
# asked of many names at once.
MAYBE_NEVER = re.compile(r"^\.|[~:]|[ .]$|\.pth$|customize\.py$", re.IGNORECASE | re.MULTILINE)

SECRET_REASON = "may hold secrets"  # noqa: S105  (words for a person, no password)
SECRET = re.compile(
    r"\.env|\.env\..*|.*\.(?:pem|key|kdbx|p12|pfx|jks|keystore|tfstate|tfstate\.backup)"
    r"|\.netrc|_netrc|\.pgpass|\.npmrc|\.pypirc|\.git-credentials|\.htpasswd"
    r"|\.aws|\.ssh|\.gnupg|\.kube|.*credentials.*\.json",
    re.DOTALL,
)
NOT_SECRET = frozenset({".env.example"})
SECRET_LEAF = re.compile(r"id_[^.]*")  # a private key; only as the file itself, as id_types/ is an ordinary directory

_BUILD = "runs when you build, test or install"
_EDITOR = "runs when you open the project in an editor"
_SHELL = "runs when a shell starts"
_CI = "runs in CI"
_GIT = "changes what git runs or fetches"
_AGENT = "instructs coding assistants"
_RUNS_LATER = {
    **dict.fromkeys(
        (
            *("makefile", "gnumakefile", "justfile", "rakefile", "cmakelists.txt", "dockerfile", "containerfile"),
            *("conftest.py", "setup.py", "setup.cfg", "pyproject.toml", "tox.ini", "noxfile.py", "package.json"),
            *("build.rs", "build.gradle", "build.gradle.kts", "pom.xml", "gemfile", "vagrantfile"),
            *("docker-compose.yml", "docker-compose.yaml", "compose.yml", "compose.yaml"),
        ),
        _BUILD,
    ),
    **dict.fromkeys((".vscode", ".idea", ".devcontainer", ".devcontainer.json", ".zed", ".fleet"), _EDITOR),
    **dict.fromkeys(
        (
            *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"),
            *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login"),
            *("config.fish", ".envrc"),
        ),
        _SHELL,
    ),
    **dict.fromkeys(
        (
            *(".gitlab-ci.yml", ".circleci", ".travis.yml", ".drone.yml", ".buildkite", ".woodpecker", ".forgejo"),
            *(".gitea", "jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml", ".cirrus.yml"),
        ),
        _CI,
    ),
    **dict.fromkeys((".husky", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml"), "runs when you commit"),
    **dict.fromkeys((".gitattributes", ".gitmodules", ".gitconfig", ".ripgreprc"), _GIT),
    **dict.fromkeys(
        (
            *("agents.md", "gemini.md", "claude.md", "copilot-instructions.md", ".cursorrules", ".windsurfrules"),
            *(".clinerules", ".cursor", ".claude", ".gemini", ".codex", ".agents", ".mcp.json"),
        ),
        _AGENT,
    ),
}
_RUNS_LATER_PATTERN = re.compile(r".*\.mk|dockerfile\..+|.*\.dockerfile|.*\.gradle", re.DOTALL)
PAIRS = {(".github", "workflows"): _CI, (".github", "actions"): _CI}

WINDOWS_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)), *(f"lpt{n}" for n in range(10))}
)


def never(folded: str) -> str | None:
    """Why a name is of class A, or None."""
    if folded.startswith(TEMPORARY_PREFIX):
        return OURS
    if folded.endswith(".pth"):
        return _PYTHON_START
    if "~" in folded and _NEVER_SHORT.fullmatch(folded):
        return "is a short name of a protected one"
    return _NEVER.get(folded)


def runs_later(folded: str) -> str | None:
    """Why a name is of class C, or None."""
    if (why := _RUNS_LATER.get(folded)) is not None:
        return why
    return _BUILD if _RUNS_LATER_PATTERN.fullmatch(folded) else None
