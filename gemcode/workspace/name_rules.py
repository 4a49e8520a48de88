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
    ".sl": _VERSION_CONTROL,
    ".bzr": _VERSION_CONTROL,
    ".pijul": _VERSION_CONTROL,
    "_darcs": _VERSION_CONTROL,
    ".gemcode": OURS,
    ".gemcodeignore": OURS,
    ".gemcode.toml": OURS,
}
_PYTHON_STARTS = re.compile(r"(?:site|user)customize(?:\..*)?|.*\.pth", re.DOTALL)  # module, package or compiled
# NTFS may answer to a made-up short name too: git~1 for .git.
_NEVER_SHORT = re.compile(r"(?:git|hg|svn|jj|gemcod|sitecu|userc[ou]|userus)~[0-9]+(?:\.py)?|gi[0-9a-f]{4}~[0-9]+")

# In ASCII every spelling of a name above has one of these; a name without any is not worth folding. By line: it is
# asked of many names at once.
MAYBE_NEVER = re.compile(r"^\.|[~:]|[ .]$|\.pth$|customize|^_darcs$", re.IGNORECASE | re.MULTILINE)

# Besides the format characters (category Cf), file systems that fold case leave these out of a comparison: ext4 and
# f2fs go by Unicode's Default_Ignorable_Code_Point.
IGNORABLE = frozenset(
    map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2065, 0x3164, 0xFFA0))
) | frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xFFF0, 0xFFF9), *range(0xE0000, 0xE1000))))

SECRET_REASON = "may hold secrets"  # noqa: S105  (words for a person, no password)
SECRET = re.compile(
    r"\.env|\.env[._~-].*|.+\.env|\.dev\.vars(?:\..*)?"
    r"|.*\.(?:pem|key|ppk|p8|p12|pfx|pkcs12|jks|keystore|keytab|kdbx?|gpg|ovpn|agekey|tfstate|tfvars)"
    r"|\.netrc|_netrc|\.authinfo|\.pgpass|\.my\.cnf|\.npmrc|\.pypirc|\.git-credentials|\.htpasswd|\.dockercfg|\.boto"
    r"|\.s3cfg|\.vault-token|\.terraformrc|\.?rclone\.conf|kubeconfig"
    r"|\.aws|\.azure|\.docker|\.gcloud|\.gnupg|\.kube|\.password-store|\.secrets?|\.ssh"
    r"|.*(?:credentials|client_secret|service[-_]?account).*\.json"
    r"|\.(?:ba|z|k)?sh_history|\.(?:python|psql|mysql|sqlite|node_repl|irb)_history",
    re.DOTALL,
)
NOT_SECRET = re.compile(r"\.env(?:\..*)?\.(?:example|sample|template|dist)|(?:example|sample|template)\.env", re.DOTALL)
# Only as the file itself: id_types/ and credentials/ are ordinary directories.
SECRET_LEAF = re.compile(
    r"id_[^.]*|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?\.(?!pub$).*"
    r"|credentials(?:\.(?:csv|ini|toml|ya?ml))?|secrets?\.(?:ini|json|toml|ya?ml)",
    re.DOTALL,
)
# An editor's or a person's copy is what the original is: `.env~`, `server.key.bak`, `.id_rsa.swp`.
COPY = re.compile(r"(.+)(?:~|\.(?:bak|backup|old|orig|save|copy))|\.(.+)\.sw[a-p]", re.DOTALL)

_BUILD = "runs when you build, test or install"
_EDITOR = "runs when you open the project in an editor"
_SHELL = "runs when a shell starts"
_CI = "runs in CI"
_GIT = "changes what git runs or fetches"
_AGENT = "instructs coding assistants"
_INSTALLED = "is installed code, which runs without another look at it"
_COMMIT = "runs when you commit"
_RUNS_LATER = {
    name: why
    for why, names in {
        _BUILD: (
            "makefile gnumakefile justfile rakefile cmakelists.txt dockerfile containerfile vagrantfile procfile "
            "conftest.py setup.py setup.cfg pyproject.toml tox.ini noxfile.py fabfile.py pytest.ini .pytest.ini "
            ".pylintrc pylintrc hatch_build.py pyvenv.cfg build.rs cargo.toml .cargo build.zig package.swift mix.exs "
            "rebar.config build.sbt pom.xml build.xml .mvn mvnw gradlew gradle.properties gemfile podfile "
            "package.json binding.gyp deno.json deno.jsonc bunfig.toml composer.json pnpm-workspace.yaml .pnpmfile.cjs "
            ".yarn .yarnrc .yarnrc.yml gulpfile.js gruntfile.js .eslintrc.js .eslintrc.cjs meson.build configure "
            "configure.ac sconstruct snakefile wscript build.bazel .bazelrc taskfile.yml taskfile.yaml earthfile "
            "tiltfile flake.nix shell.nix default.nix mise.toml .mise.toml .rspec .irbrc .pryrc .rprofile .gdbinit "
            ".lldbinit docker-compose.yml docker-compose.yaml compose.yml compose.yaml"
        ),
        _INSTALLED: "node_modules site-packages venv .venv .tox .nox",
        _EDITOR: (
            ".vscode .idea .devcontainer .devcontainer.json .zed .fleet .helix .vs .nova "
            ".vimrc .nvimrc .nvim.lua .exrc .lvimrc .dir-locals.el .dir-locals-2.el"
        ),
        _SHELL: (
            ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .inputrc .zshrc .zshenv .zprofile "
            ".zlogin .zlogout .kshrc .cshrc .tcshrc .login config.fish .envrc"
        ),
        _CI: (
            ".gitlab-ci.yml .gitlab .circleci .travis.yml .drone.yml .buildkite .woodpecker .forgejo .gitea "
            "jenkinsfile azure-pipelines.yml .azure-pipelines bitbucket-pipelines.yml .cirrus.yml appveyor.yml "
            ".appveyor.yml cloudbuild.yaml buildspec.yml .build.yml .builds .semaphore .teamcity .tekton netlify.toml "
            "vercel.json"
        ),
        _COMMIT: (
            ".husky .githooks .pre-commit-config.yaml .pre-commit-hooks.yaml .overcommit.yml lefthook.yml "
            ".lefthook.yml lefthook.yaml lefthook.toml .lintstagedrc .lintstagedrc.json"
        ),
        _GIT: ".gitattributes .gitmodules .gitconfig .ripgreprc",
        _AGENT: (
            "agents.md gemini.md claude.md claude.local.md copilot-instructions.md .cursorrules .windsurfrules "
            ".clinerules .roorules .goosehints .cursor .claude .gemini .codex .agents .continue .roo .kiro .amazonq "
            ".junie .aider.conf.yml .mcp.json mcp.json"
        ),
    }.items()
    for name in names.split()
}
_RUNS_LATER_PATTERN = re.compile(
    r".*\.(?:mk|cmake|bzl|gemspec|podspec|dockerfile|gradle|gradle\.kts|targets|[cf]sproj|vbproj|code-workspace)"
    r"|dockerfile\..+|.+\.config\.[cm]?[jt]s|directory\.build\.props",
    re.DOTALL,
)
PAIRS = {
    (".github", "workflows"): _CI,
    (".github", "actions"): _CI,
    (".github", "instructions"): _AGENT,
    (".github", "prompts"): _AGENT,
}

WINDOWS_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)), *(f"lpt{n}" for n in range(10))}
)


def never(folded: str) -> str | None:
    """Why a name is of class A, or None."""
    if folded.startswith(TEMPORARY_PREFIX):
        return OURS
    if _PYTHON_STARTS.fullmatch(folded):
        return _PYTHON_START
    if "~" in folded and _NEVER_SHORT.fullmatch(folded):
        return "is a short name of a protected one"
    return _NEVER.get(folded)


def runs_later(folded: str) -> str | None:
    """Why a name is of class C, or None."""
    if (why := _RUNS_LATER.get(folded)) is not None:
        return why
    return _BUILD if _RUNS_LATER_PATTERN.fullmatch(folded) else None
