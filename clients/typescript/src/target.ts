/** The server that a client talks to, and the settings of its channels. */

import { readFileSync } from "node:fs";
import { isIP } from "node:net";

import { credentials as grpcCredentials, Metadata, type ChannelCredentials, type ChannelOptions } from "@grpc/grpc-js";

import type { Settings } from "./configuration.js";
import type { CredentialProvider } from "./credentials.js";
import { VERSION } from "./version.js";

/** An address with everything that a connection to it needs. */
export interface Target {
  readonly address: string;
  readonly tls: boolean;
  readonly token: string | undefined;
  readonly credentials: ChannelCredentials;
  readonly connectTimeoutMs: number;
}

/**
 * Returns the target of these arguments. Without `tls`, TLS is used unless the address is local.
 *
 * Throws RangeError if the address is not HOST:PORT, and the error of the file system if `caFile` cannot be read.
 */
export function targetOf(
  address: string,
  tls: boolean | undefined,
  caFile: string | undefined,
  provider: CredentialProvider,
  connectTimeoutMs: number,
): Target {
  const [, host = "", port = ""] = /^(\[[\da-fA-F:.]+\]|[^\s:/[\]]+):(\d{1,5})$/.exec(address) ?? [];
  if (!host || !(Number(port) > 0 && Number(port) < 65536)) {
    throw new RangeError(`cannot use address '${address}': it is not HOST:PORT; give one such as 127.0.0.1:7000`);
  }
  const usesTls = tls ?? (caFile !== undefined || !isLocal(host.replace(/^\[|\]$/g, "")));
  const credentials = usesTls
    ? grpcCredentials.createSsl(caFile === undefined ? null : readFileSync(caFile))
    : grpcCredentials.createInsecure();
  return { address, tls: usesTls, token: provider.token, credentials, connectTimeoutMs };
}

function isLocal(host: string): boolean {
  return host === "localhost" || (isIP(host) === 4 && host.startsWith("127.")) || host === "::1";
}

/** Returns whether a cache may have this name: the value of a header of HTTP/2 is printable ASCII. */
export const isCacheName = (cache: string): boolean => /^[ -~]*$/.test(cache);

/**
 * Returns the metadata of the calls on a cache; an empty name stands for calls on no cache. Throws TypeError unless the
 * name is a string.
 */
export function metadataOf(target: Target, cache: string): Metadata {
  if (typeof cache !== "string") {
    const kind = cache === null ? "null" : typeof cache;
    throw new TypeError(`cannot use cache: ${kind} is no name; give a string`);
  }
  const metadata = new Metadata();
  if (cache && isCacheName(cache)) metadata.set("cache", cache);
  if (target.token !== undefined) metadata.set("authorization", target.token);
  return metadata;
}

/** Returns the options of each channel. A channel has one connection of its own. */
export function channelOptions(settings: Settings): ChannelOptions {
  const options: ChannelOptions = {
    "grpc.use_local_subchannel_pool": 1,
    // The address is that of the server: a proxy for web traffic does not lead to it.
    "grpc.enable_http_proxy": 0,
    "grpc.service_config_disable_resolution": 1,
    "grpc.enable_channelz": 0,
    "grpc.max_send_message_length": settings.messageBytesMax,
    "grpc.max_receive_message_length": settings.messageBytesMax,
    "grpc.initial_reconnect_backoff_ms": settings.reconnectDelayMinMs,
    "grpc.max_reconnect_backoff_ms": settings.reconnectDelayMaxMs,
    "grpc.primary_user_agent": `gannet-node/${VERSION}`,
  };
  if (settings.keepaliveTimeMs > 0) {
    options["grpc.keepalive_time_ms"] = settings.keepaliveTimeMs;
    options["grpc.keepalive_timeout_ms"] = settings.keepaliveTimeoutMs;
    options["grpc.keepalive_permit_without_calls"] = settings.keepaliveWithoutCalls ? 1 : 0;
  }
  return options;
}
