"""The eleven tools of Claude Code, with schemas written from their documented shapes, and a call of each."""

from typing import Any

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def tool(name: str, properties: dict[str, Any], required: list[str], **more: Any) -> dict[str, Any]:
    schema = {"$schema": DRAFT, "type": "object", "properties": properties, "required": required}
    return {
        "name": name,
        "description": f"The {name} tool.",
        "input_schema": {**schema, "additionalProperties": False, **more},
    }


def text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


TODO = {
    "type": "object",
    "properties": {
        "content": {"type": "string", "minLength": 1},
        "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
        "activeForm": {"type": "string", "minLength": 1},
    },
    "required": ["content", "status", "activeForm"],
    "additionalProperties": False,
}
OPTION = {
    "type": "object",
    "properties": {"label": text("One to five words"), "description": text("What it means")},
    "required": ["label", "description"],
    "additionalProperties": False,
}
QUESTION = {
    "type": "object",
    "properties": {
        "question": text("The whole question"),
        "header": text("A short label", maxLength=12),
        "multiSelect": {"type": "boolean", "default": False},
        "options": {"type": "array", "items": OPTION, "minItems": 2, "maxItems": 4},
    },
    "required": ["question", "header", "options", "multiSelect"],
    "additionalProperties": False,
}
TOOLS = [
    tool("TodoWrite", {"todos": {"type": "array", "items": TODO, "description": "The new list"}}, ["todos"]),
    tool(
        "Task",
        {
            "description": text("Three to five words"),
            "prompt": text("What to do"),
            "subagent_type": text("Which agent"),
            "model": {"type": "string", "enum": ["sonnet", "opus", "haiku"]},
            "isolation": {"const": "worktree", "type": "string"},
        },
        ["description", "prompt", "subagent_type"],
    ),
    tool(
        "Bash",
        {
            "command": text("What to run"),
            "timeout": {"type": "number", "description": "Milliseconds", "maximum": 600000, "exclusiveMinimum": 0},
            "description": text("What it does"),
            "run_in_background": {"type": "boolean"},
        },
        ["command"],
    ),
    tool(
        "Read",
        {
            "file_path": text("Absolute path"),
            "offset": {"type": "integer", "minimum": 0, "maximum": 9007199254740991},
            "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991},
            "pages": text("A range of pages", pattern=r"^\d+(-\d+)?$"),
        },
        ["file_path"],
    ),
    tool(
        "Edit",
        {
            "file_path": text("Absolute path"),
            "old_string": text("What to replace"),
            "new_string": text("What with"),
            "replace_all": {"type": "boolean", "default": False},
        },
        ["file_path", "old_string", "new_string"],
    ),
    tool("Write", {"file_path": text("Absolute path"), "content": text("All of it")}, ["file_path", "content"]),
    tool("Glob", {"pattern": text("The pattern"), "path": {"anyOf": [text("Where"), {"type": "null"}]}}, ["pattern"]),
    tool(
        "Grep",
        {
            "pattern": text("The expression"),
            "output_mode": {"type": "string", "enum": ["content", "files_with_matches", "count"]},
            "-A": {"type": "number", "description": "Lines after"},
            "-i": {"type": "boolean"},
            "head_limit": {"type": "number", "default": 250},
        },
        ["pattern"],
    ),
    tool(
        "AskUserQuestion",
        {
            "questions": {"type": "array", "items": QUESTION, "minItems": 1, "maxItems": 4},
            "answers": {
                "type": "object",
                "propertyNames": {"type": "string"},
                "additionalProperties": {"type": "string"},
            },
        },
        ["questions"],
    ),
    tool("WebFetch", {"url": text("Where", format="uri"), "prompt": text("What to look for")}, ["url", "prompt"]),
    tool(
        "WebSearch",
        {
            "query": text("What to search", minLength=2),
            "allowed_domains": {"type": "array", "items": {"type": "string"}},
            "blocked_domains": {"type": "array", "items": {"type": "string"}},
        },
        ["query"],
    ),
]
CALLS: dict[str, dict[str, Any]] = {
    "TodoWrite": {"todos": [{"content": "Test it", "status": "in_progress", "activeForm": "Testing it"}]},
    "Task": {"description": "Look around", "prompt": "Find it", "subagent_type": "Explore", "isolation": "worktree"},
    "Bash": {"command": "ls -l 'a b' && echo \"$HOME\"", "timeout": 1000},
    "Read": {"file_path": "/tmp/ä.txt", "limit": 5, "pages": "1-3"},
    "Edit": {"file_path": "/tmp/a", "old_string": "x\n\ty", "new_string": "", "replace_all": True},
    "Write": {"file_path": "/tmp/a", "content": 'line\r\nline \\ "quoted"\n'},
    "Glob": {"pattern": "**/*.py", "path": None},
    "Grep": {"pattern": r"\bfoo\(", "output_mode": "count", "-A": 2, "-i": True},
    "AskUserQuestion": {
        "questions": [
            {
                "question": "Which one?",
                "header": "Choice",
                "multiSelect": False,
                "options": [{"label": "A", "description": "first"}, {"label": "B", "description": "second"}],
            }
        ],
        "answers": {"Which one?": "A"},
    },
    "WebFetch": {"url": "https://example.org/?q=1#top", "prompt": "title"},
    "WebSearch": {"query": "gemini", "allowed_domains": ["example.org"]},
}
