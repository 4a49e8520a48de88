"""`gemcode audit`: show the log of tool executions, or check that nobody has changed it."""

import json
from datetime import datetime
from typing import Literal

from gemcode import app, audit
from gemcode.agent.errors import ExitCode
from gemcode.agent.evidence import Record
from gemcode.terminal.safe import escape, write_stderr, write_stdout


def run(options: app.Options, action: Literal["show", "verify"], *, as_json: bool) -> int:
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
    if verdict.torn or verdict.unfinished:
        write_stdout(
            f"· {verdict.unfinished} calls without an outcome and {verdict.torn} torn lines: "
            "left by a gemcode that was killed, or is still at work.\n"
        )
    return 0


def _line(record: Record) -> str:
    if record.get("event") == "intent":
        said = f"{record.get('effect')} {json.dumps(record.get('args'))}"
    else:
        said = f"{record.get('decision')}: " + ("ok" if record.get("ok") else f"{record.get('error')}")
    event, when = str(record.get("event")), _when(record.get("time"))
    text = f"{record['seq']:>6}  {when}  {record.get('session')}  {event:7} {record.get('tool')}  {said}"
    return escape(text, single_line=True)


def _when(time: object) -> str:
    """The log may have been altered: a time can be anything."""
    try:
        return datetime.fromtimestamp(float(str(time))).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return "at an unknown time"
