/** Signed tokens: credentials that carry their rights. Only users with all rights may issue them. */

import { unsigned32 } from "./arguments.js";
import { unary } from "./calls.js";
import { CredentialProvider } from "./credentials.js";
import type { CallOptions, Engine, Scope } from "./engine.js";
import type { CacheError } from "./errors.js";
import * as m from "./generated/messages.js";
import { Opaque } from "./opaque.js";
import type { Bytes } from "./wire.js";

const ROLES = { read_write: "READ_WRITE", read_only: "READ_ONLY", write_only: "WRITE_ONLY" } as const;

/**
 * The calls that a permission allows. `write_only` excludes calls whose effect or reply depends on present values, such
 * as conditional changes.
 */
export type Role = keyof typeof ROLES;

/** The caches of a permission: all of them without `cache`. */
interface CacheScope {
  /** The name of the only cache. */
  readonly cache?: string | undefined;
}

/** The items of a permission: all keys, one of them, or those with a prefix. */
export type ItemScope = CacheScope &
  (
    | { readonly key?: Bytes | undefined; readonly keyPrefix?: never }
    | { readonly keyPrefix: Bytes; readonly key?: never }
  );

/** The topics of a permission: all of them, one, or those with a prefix. */
export type TopicScope = CacheScope &
  (
    | { readonly topic?: string | undefined; readonly topicPrefix?: never }
    | { readonly topicPrefix: string; readonly topic?: never }
  );

function scopeOf(
  role: Role,
  cache: string | undefined,
  name: Bytes | undefined,
  prefix: Bytes | undefined,
): m.PermissionScope {
  if (!Object.hasOwn(ROLES, role)) {
    throw new RangeError(`cannot use role '${role}': it is unknown; give one of ${Object.keys(ROLES).join(", ")}`);
  }
  const caches = cache === undefined ? { allCaches: {} } : { oneCache: { name: cache } };
  const which = { role: m.PermissionRole[ROLES[role]], ...caches };
  if (name !== undefined) return { ...which, part: { name } };
  return prefix === undefined ? { ...which, everything: {} } : { ...which, part: { prefix } };
}

/** One permission of a token. */
export class Permission {
  private constructor(
    /** @internal */
    readonly message: m.Permission,
  ) {
    Object.freeze(this);
  }

  /** Allows calls on items: `Permission.items("read_only", { cache: "shop", keyPrefix: "user:" })`. */
  static items(role: Role, scope: ItemScope = {}): Permission {
    return new Permission({ items: scopeOf(role, scope.cache, scope.key, scope.keyPrefix) });
  }

  /** Allows calls on topics; `read_only` is to subscribe, and `write_only` to publish. */
  static topics(role: Role, scope: TopicScope = {}): Permission {
    return new Permission({ topics: scopeOf(role, scope.cache, scope.topic, scope.topicPrefix) });
  }
}

/** The permissions of a token: a list, or `all` for those of a user with all rights. */
export type Permissions = "all" | readonly Permission[];

/** A token. Logs do not show it. */
export class TokenSuccess {
  readonly type = "success";
  readonly #token: string;

  constructor(
    token: string,
    /** The instant at which the token expires, or undefined if it never does. */
    readonly validUntil: Date | undefined,
    /** The address under which the client knows the server. */
    readonly endpoint: string,
  ) {
    this.#token = token;
  }

  /** The token. */
  get token(): string {
    return this.#token;
  }

  /** Returns credentials with the token, for a client. */
  credentials(): CredentialProvider {
    return CredentialProvider.fromString(this.#token);
  }
}

/** A token, and the one that refreshes it. Logs show neither. */
export class ApiTokenSuccess extends TokenSuccess {
  readonly #refreshToken: string;

  constructor(token: string, refreshToken: string, validUntil: Date | undefined, endpoint: string) {
    super(token, validUntil, endpoint);
    this.#refreshToken = refreshToken;
  }

  /** The token for `refreshApiToken`; empty if the token never expires. */
  get refreshToken(): string {
    return this.#refreshToken;
  }
}

export type ApiTokenResult = ApiTokenSuccess | CacheError;
export type TokenResult = TokenSuccess | CacheError;

/** Options of calls that issue a token. */
export interface TokenOptions extends CallOptions {
  /** The id of the token, which is the `publisherId` of the messages that it publishes. */
  readonly tokenId?: string | undefined;
}

const untilOf = (seconds: bigint): Date | undefined => (seconds === 0n ? undefined : new Date(Number(seconds) * 1000));
const apiToken = ({ token, refreshToken, endpoint, validUntil }: m.ApiTokenRead): ApiTokenSuccess =>
  new ApiTokenSuccess(token, refreshToken, untilOf(validUntil), endpoint);

// Each attempt would issue another valid token, and those of lost replies remain valid.
const GENERATE = unary("Tokens", "GenerateApiToken", apiToken, false);
const REFRESH = unary("Tokens", "RefreshApiToken", apiToken, false);
const DISPOSABLE = unary(
  "Tokens",
  "GenerateDisposableToken",
  ({ token, endpoint, validUntil }) => new TokenSuccess(token, untilOf(validUntil), endpoint),
  false,
);

function permissionsOf(permissions: Permissions): m.Permissions {
  if (permissions === "all") return { superuser: m.PermissionsSuperuser.SUPERUSER };
  if (!Array.isArray(permissions) || !permissions.every((each) => each instanceof Permission)) {
    throw new TypeError('cannot use permissions: they are no list of Permission; give one, or "all"');
  }
  return { explicit: { permissions: permissions.map((each) => each.message) } };
}

function validityOf(seconds: number): m.Validity {
  return { seconds: unsigned32("expiresSeconds", seconds, 1) };
}

/** The tokens of a server. */
export class Tokens extends Opaque {
  /** @internal */
  constructor(
    private readonly engine: Engine,
    private readonly scope: Scope,
  ) {
    super();
  }

  /** Issues a token, and one that refreshes it. */
  async generateApiToken(
    permissions: Permissions,
    expiresSeconds: number | "never",
    options: TokenOptions = {},
  ): Promise<ApiTokenResult> {
    const expiry = expiresSeconds === "never" ? { never: {} } : { expires: validityOf(expiresSeconds) };
    const rest = { authToken: "", permissions: permissionsOf(permissions), tokenId: options.tokenId ?? "" };
    return this.engine.call(GENERATE, m.encodeGenerateApiTokenRequest({ ...expiry, ...rest }), this.scope, options);
  }

  /** Replaces a token and its refresh token by new ones with the same permissions, before they expire. */
  async refreshApiToken(token: string, refreshToken: string, options?: CallOptions): Promise<ApiTokenResult> {
    return this.engine.call(REFRESH, m.encodeRefreshApiTokenRequest({ token, refreshToken }), this.scope, options);
  }

  /** Issues a token that cannot be refreshed, for one purpose and a short time. */
  async generateDisposableToken(
    permissions: Permissions,
    expiresSeconds: number,
    options: TokenOptions = {},
  ): Promise<TokenResult> {
    const request = m.encodeGenerateDisposableTokenRequest({
      expires: validityOf(expiresSeconds),
      authToken: "",
      permissions: permissionsOf(permissions),
      tokenId: options.tokenId ?? "",
    });
    return this.engine.call(DISPOSABLE, request, this.scope, options);
  }
}
