"""Tokens by which a client authenticates."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Optional


@dataclass(frozen=True)
class CredentialProvider:
    """A token, or none. A token is a password of the user `default`, `USER:PASSWORD`, or a signed token."""

    token: Optional[str] = field(default=None, repr=False)

    @staticmethod
    def none() -> CredentialProvider:
        """Returns credentials without a token, for servers whose users need no password."""
        return CredentialProvider()

    @staticmethod
    def from_string(token: str) -> CredentialProvider:
        """Returns credentials with this token. Raises ValueError if it is empty, or not printable ASCII."""
        if not token:
            raise ValueError("cannot use token: it is empty; give a token, or use CredentialProvider.none()")
        if not (token.isascii() and token.isprintable()):
            raise ValueError("cannot use token: it is not printable ASCII; give a token without other characters")
        return CredentialProvider(token)

    @staticmethod
    def from_environment(variable: str = "GANNET_TOKEN") -> CredentialProvider:
        """Returns credentials with the token in this environment variable. Raises ValueError if it is not set."""
        token = os.environ.get(variable, "").strip()
        if not token:
            raise ValueError(f"cannot read token: environment variable {variable} is not set; export {variable}=TOKEN")
        return CredentialProvider.from_string(token)
