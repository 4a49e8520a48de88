"""`gemcode tools` and `gemcode models`: what the model gets, and what there is to choose from. No request is made."""

import json
import textwrap
from datetime import date, timedelta

from gemcode import app
from gemcode.agent.policy import Mode
from gemcode.gemini import catalog
from gemcode.gemini.wire import encode_declaration
from gemcode.terminal.safe import escape, write_stdout


def tools(options: app.Options, *, as_json: bool) -> int:
    """The declarations, exactly as they are sent, or a line for each."""
    settings = app.load_settings(options)
    with app.open_project(settings, app.new_session_id()) as project:
        declarations = project.registry.declarations(settings.approve or Mode.ASK)
    if as_json:
        write_stdout(json.dumps([encode_declaration(item) for item in declarations], indent=2) + "\n")
        return 0
    for declaration in declarations:
        arguments = ", ".join(declaration.schema.get("properties", {}))
        said = f"{declaration.description} Arguments: {arguments}."
        write_stdout(
            textwrap.fill(said, 80, initial_indent=f"{declaration.name:13} ", subsequent_indent=" " * 14) + "\n"
        )
    return 0


def models(options: app.Options, *, as_json: bool) -> int:
    settings = app.load_settings(options)
    today = date.today()
    if as_json:
        rows = [_as_json(model, settings.model, today) for model in catalog.MODELS]
        write_stdout(json.dumps({"as_of": catalog.AS_OF.isoformat(), "models": rows}, indent=2) + "\n")
        return 0
    write_stdout(f"  {'model':34} {'USD in/out/cached':>17} thinking\n")
    for model in catalog.MODELS:
        price = catalog.price_on(model, today)
        mark = "*" if model.name == settings.model else " "
        levels = " ".join(f"[{level}]" if level == model.default_level else level for level in model.thinking_levels)
        write_stdout(f"{mark} {model.name:34} {_cost(price):>17} {levels or 'budget'}\n")
    if catalog.find(settings.model) is None:
        write_stdout(f"* {escape(settings.model, single_line=True)} (not in this list: tokens are shown without USD)\n")
    write_stdout(f"USD per million tokens as of {catalog.AS_OF}; out includes thinking.\n")
    for model in catalog.MODELS:
        price = catalog.price_on(model, today)
        for following in model.prices[model.prices.index(price) + 1 :]:
            write_stdout(f"  {model.name}: {_cost(following)} {_when_over(price)}\n")
            price = following
    for limits in sorted({(model.input_limit, model.output_limit) for model in catalog.MODELS}):
        names = [model.name for model in catalog.MODELS if (model.input_limit, model.output_limit) == limits]
        which = "all models" if len(names) == len(catalog.MODELS) else ", ".join(names)
        write_stdout(f"Limits of {which}: {limits[0]:,} tokens in, {limits[1]:,} out.\n")
    write_stdout("* active, [default level].\n")
    return 0


def _cost(price: catalog.Price) -> str:
    cached = max(f"{price.cached:.2f}", f"{price.cached:.3g}", key=len)  # at least two places
    return f"{price.input:.2f}/{price.output:.2f}/{cached}"


def _when_over(price: catalog.Price) -> str:
    """When the next price takes the place of this one."""
    if price.prompt_limit is not None:
        return f"for prompts over {price.prompt_limit // 1000}k"
    return f"from {price.until + timedelta(days=1)}"


def _as_json(model: catalog.ModelInfo, active: str, today: date) -> dict[str, object]:
    price = catalog.price_on(model, today)
    return {
        "name": model.name,
        "active": model.name == active,
        "input_limit": model.input_limit,
        "output_limit": model.output_limit,
        "thinking_levels": list(model.thinking_levels),
        "default_level": model.default_level or None,
        "usd_per_million": {"input": price.input, "output": price.output, "cached": price.cached},
        "note": model.note,
    }
