/** Objects whose fields lead to the token of a client, which logs must not show. */

/** An object that logs and JSON show by `toJSON` alone. */
export abstract class Opaque {
  toJSON(): unknown {
    return {};
  }

  /** @internal */
  [Symbol.for("nodejs.util.inspect.custom")](): string {
    return `${this.constructor.name} ${JSON.stringify(this)}`;
  }
}
