"""What to set in each client: the lines that the gateway prints at its start. Pure."""

from gemcode.gateway.config import GatewayConfig


def welcome(config: GatewayConfig, port: int) -> list[str]:
    """Lines to copy. The token is in them: they go to the person who started the gateway, and to no log."""
    host = "127.0.0.1" if config.host in ("0.0.0.0", "localhost") else config.host  # noqa: S104 - compared, not bound
    host = f"[{host}]" if ":" in host else host
    base, token, model = f"http://{host}:{port}", config.token, config.model
    return [
        f"gemcode gateway on {base}, answering with {model}. Ctrl-C stops it.",
        "",
        "Claude Code:",
        f"  export ANTHROPIC_BASE_URL={base} ANTHROPIC_AUTH_TOKEN={token} ANTHROPIC_MODEL={model}",
        f"  export ANTHROPIC_SMALL_FAST_MODEL={model} CLAUDE_CODE_MAX_CONTEXT_TOKENS=1000000",
        "",
        "Codex, in ~/.codex/config.toml:",
        f'  model = "{model}"',
        '  model_provider = "gemcode"',
        "  [model_providers.gemcode]",
        '  name = "gemcode"',
        f'  base_url = "{base}/v1"',
        '  wire_api = "responses"',
        '  env_key = "GEMCODE_TOKEN"',
        "and in the shell:",
        f"  export GEMCODE_TOKEN={token}",
        "",
        "opencode, in opencode.json:",
        '  {"provider": {"gemcode": {"npm": "@ai-sdk/anthropic",',
        f'    "options": {{"baseURL": "{base}/v1", "apiKey": "{token}"}}, "models": {{"{model}": {{}}}}}}}},',
        f'   "model": "gemcode/{model}"}}',
        "",
        "SDKs (Python):",
        f'  anthropic.Anthropic(base_url="{base}", api_key="{token}")',
        f'  openai.OpenAI(base_url="{base}/v1", api_key="{token}")',
        f'  genai.Client(api_key="{token}", http_options={{"base_url": "{base}"}})',
        f'  boto3.client("bedrock-runtime", endpoint_url="{base}", region_name="us-east-1",',
        f'    aws_access_key_id="{token}", aws_secret_access_key="unused")',
    ]
