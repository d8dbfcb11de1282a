/** Tokens by which a client authenticates. */

/** A token, or none. A token is a password of the user `default`, or `USER:PASSWORD`. */
export class CredentialProvider {
  // Private, so that a log of the object does not show it.
  readonly #token: string | undefined;

  private constructor(token: string | undefined) {
    this.#token = token;
  }

  /** The token, or undefined. */
  get token(): string | undefined {
    return this.#token;
  }

  /** Returns credentials without a token, for servers whose users need no password. */
  static none(): CredentialProvider {
    return new CredentialProvider(undefined);
  }

  /** Returns credentials with this token. Throws RangeError if it is empty, or not printable ASCII. */
  static fromString(token: string): CredentialProvider {
    if (!token) throw new RangeError("cannot use token: it is empty; give a token, or use CredentialProvider.none()");
    if (!/^[ -~]+$/.test(token)) {
      throw new RangeError("cannot use token: it is not printable ASCII; give a token without other characters");
    }
    return new CredentialProvider(token);
  }

  /** Returns credentials with the token in this environment variable. Throws RangeError if it is not set. */
  static fromEnvironment(variable = "GANNET_TOKEN"): CredentialProvider {
    const token = (process.env[variable] ?? "").trim();
    if (token) return CredentialProvider.fromString(token);
    const remedy = `export ${variable}=TOKEN`;
    throw new RangeError(`cannot read token: environment variable ${variable} is not set; ${remedy}`);
  }
}
