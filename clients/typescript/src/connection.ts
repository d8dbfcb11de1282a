/** One connection to the server: a channel with a subchannel pool of its own. */

import type { Socket } from "node:net";

import { Channel, ChannelCredentials, connectivityState as State } from "@grpc/grpc-js";

import type { Settings } from "./configuration.js";
import type { Streams } from "./limiter.js";
import { channelOptions, type Target } from "./target.js";

type ConnectorArguments = Parameters<ChannelCredentials["_createSecureConnector"]>;
type Connector = ReturnType<ChannelCredentials["_createSecureConnector"]>;

/** The error of a connection whose handshake took too long, as the messages of failed calls contain it. */
export const CONNECT_TIMEOUT = "connect timeout";

/** Returns the time of the computer's clock, as grpc-js takes deadlines, for an instant of `performance.now()`. */
export function wallTimeOf(instant: number): number {
  return Date.now() + instant - performance.now();
}

/** Credentials that pass each socket to a function before its handshake. */
class ObservedCredentials extends ChannelCredentials {
  constructor(
    private readonly inner: ChannelCredentials,
    private readonly observe: (socket: Socket) => void,
  ) {
    super();
  }

  override _isSecure(): boolean {
    return this.inner._isSecure();
  }

  override _equals(other: ChannelCredentials): boolean {
    return this === other;
  }

  override _createSecureConnector(...parts: ConnectorArguments): Connector {
    const connector = this.inner._createSecureConnector(...parts);
    return {
      connect: (socket) => {
        this.observe(socket);
        return connector.connect(socket);
      },
      waitForReady: () => connector.waitForReady(),
      getCallCredentials: () => connector.getCallCredentials(),
      destroy: () => connector.destroy(),
    };
  }
}

/**
 * A channel, and the number of its requests in flight.
 *
 * The gRPC library sets no limit to the time for connecting. Therefore, after `connectTimeoutMs` a socket whose
 * handshake is not complete is destroyed, and the library connects again later. If there is no socket yet, because the
 * host does not answer at all, the channel is replaced by a new one; the operating system gives up the old socket.
 *
 * After a failure, the library reports TRANSIENT_FAILURE until a connection is open, also during further attempts. An
 * attempt of that time begins within the greatest delay, and is seen by its socket only.
 */
export class Connection implements Streams {
  inFlight = 0;
  channel: Channel;
  private timer: NodeJS.Timeout | undefined;
  private closed = false;
  /** The socket whose handshake is not complete. */
  private socket: Socket | undefined;
  /** The latest socket. */
  private latest: Socket | undefined;

  constructor(
    private readonly target: Target,
    private readonly settings: Settings,
  ) {
    this.channel = this.open();
  }

  private open(): Channel {
    const credentials = new ObservedCredentials(this.target.credentials, (socket) => this.began(socket));
    const channel = new Channel(this.target.address, credentials, channelOptions(this.settings));
    this.watch(channel);
    return channel;
  }

  private began(socket: Socket): void {
    this.socket = this.latest = socket;
    if (this.closed) socket.destroy();
    else this.giveUpAfter(this.settings.connectTimeoutMs);
  }

  private watch(channel: Channel): void {
    const state = channel.getConnectivityState(false);
    clearTimeout(this.timer);
    if (state !== State.CONNECTING) this.socket = undefined;
    if (state === State.CONNECTING) this.giveUpAfter(this.settings.connectTimeoutMs);
    if (state === State.TRANSIENT_FAILURE) this.giveUpNextAttempt();
    if (state === State.SHUTDOWN) return;
    channel.watchConnectivityState(state, Infinity, () => {
      if (!this.closed && this.channel === channel) this.watch(channel);
    });
  }

  private giveUpAfter(ms: number): void {
    clearTimeout(this.timer);
    const { channel } = this;
    this.timer = setTimeout(() => this.giveUp(channel), ms).unref();
  }

  private giveUpNextAttempt(): void {
    this.giveUpAfter(this.settings.reconnectDelayMaxMs + this.settings.connectTimeoutMs);
  }

  private giveUp(channel: Channel): void {
    if (this.closed || this.channel !== channel) return;
    if (this.socket !== undefined) {
      this.socket.destroy(new Error(CONNECT_TIMEOUT));
      this.socket = undefined;
      if (channel.getConnectivityState(false) === State.TRANSIENT_FAILURE) this.giveUpNextAttempt();
      return;
    }
    this.channel = this.open();
    channel.close();
  }

  /**
   * Begins to connect, and resolves to whether the connection is open before the time has passed. With `failureEnds`,
   * it waits for one attempt only.
   */
  async connect(timeoutMs: number, failureEnds: boolean): Promise<boolean> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      if (this.closed) return false;
      const { channel } = this;
      const state = channel.getConnectivityState(true);
      if (state === State.READY) return true;
      if (state === State.SHUTDOWN || (failureEnds && state === State.TRANSIENT_FAILURE)) return false;
      const changed = await new Promise<boolean>((resolve) => {
        channel.watchConnectivityState(state, wallTimeOf(deadline), (error) => resolve(error === undefined));
      });
      if (!changed) return false;
    }
  }

  /** Lets the process end although the connection is open and has streams. */
  unref(): void {
    this.latest?.unref();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.channel.close();
    this.socket?.destroy();
  }
}
