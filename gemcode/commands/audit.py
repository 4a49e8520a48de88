"""`gemcode audit`: show the log of tool executions, or check that nobody has changed it."""

import json
from datetime import datetime

from gemcode import app, audit
from gemcode.agent.errors import ExitCode, UsageError
from gemcode.terminal.safe import escape, write_stderr, write_stdout


def run(options: app.Options, action: str, *, as_json: bool) -> int:
    if action not in ("show", "verify"):
        raise UsageError(f"{action!r} is not an action of audit.", "Use: gemcode audit show, or gemcode audit verify")
    with app.open_project(app.load_settings(options), app.new_session_id()) as project:
        directory = project.audit.directory
        if action == "verify":
            return _verify(audit.verify(directory))
        for record in audit.read(directory):
            write_stdout((json.dumps(record) if as_json else _line(record)) + "\n")
    return 0


def _verify(verdict: audit.Verdict) -> int:
    if verdict.problems:
        for problem in verdict.problems:
            write_stderr(f"✗ {escape(problem)}\n")
        write_stderr("✗ The audit log is not as gemcode wrote it. Keep a copy and look at the lines above.\n")
        return ExitCode.API_ERROR
    write_stdout(f"The audit log is whole: {verdict.records} records, head {verdict.head[:12]}.\n")
    return 0


def _line(record: audit.Record) -> str:
    when = datetime.fromtimestamp(float(record.get("time", 0))).strftime("%Y-%m-%d %H:%M:%S")
    if record.get("event") == "intent":
        said = f"{record.get('effect')} {json.dumps(record.get('args'))}"
    else:
        said = f"{record.get('decision')}: " + ("ok" if record.get("ok") else f"{record.get('error')}")
    text = (
        f"{record.get('seq'):>6}  {when}  {record.get('session')}  {record.get('event'):7} {record.get('tool')}  {said}"
    )
    return escape(text, single_line=True)
