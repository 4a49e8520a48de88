"""What the real service rejects, with its exact texts. Pure: no sockets, no state but the signatures it is given."""

from typing import Any

from gemcode.simulator.catalog import KnownModel, find_model
from gemcode.simulator.errors import model_not_found
from gemcode.simulator.payload import read_payload
from gemcode.simulator.signatures import Signatures

MESSAGE_OF_METHOD = {
    "generateContent": "GenerateContentRequest",
    "streamGenerateContent": "GenerateContentRequest",
    "countTokens": "CountTokensRequest",
}


def check_request(
    version: str,
    model: str,
    method: str,
    body: Any,
    *,
    strict_ids: bool = False,
    signatures: Signatures | None = None,
) -> None:
    """Raises Rejected if the service would refuse this request; without `signatures`, foreign ones are accepted."""
    known = find_model(version, model)
    if known is None or method not in MESSAGE_OF_METHOD:
        raise model_not_found(version, model, method)
    read_request(version, known, method, body, strict_ids=strict_ids, signatures=signatures)


def read_request(
    version: str,
    model: KnownModel,
    method: str,
    body: Any,
    *,
    strict_ids: bool = False,
    signatures: Signatures | None = None,
) -> dict[str, Any]:
    """The body with canonical snake_case keys, for a model that is known. Raises Rejected."""
    return read_payload(MESSAGE_OF_METHOD[method], body, version)
