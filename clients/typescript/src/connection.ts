/** One connection to the server: a channel with a subchannel pool of its own. */

import { Channel, connectivityState as State } from "@grpc/grpc-js";

import type { Settings } from "./configuration.js";
import type { Streams } from "./limiter.js";
import { channelOptions, type Target } from "./target.js";

/**
 * A channel, and the number of its requests in flight.
 *
 * The channel itself waits for a connection as long as the operating system does. Therefore, a channel that is still
 * connecting after `connectTimeoutMs` is replaced by a new one; its requests fail with UNAVAILABLE.
 */
export class Connection implements Streams {
  inFlight = 0;
  channel: Channel;
  private timer: NodeJS.Timeout | undefined;
  private closed = false;

  constructor(
    private readonly target: Target,
    private readonly settings: Settings,
  ) {
    this.channel = this.open();
  }

  private open(): Channel {
    const channel = new Channel(this.target.address, this.target.credentials, channelOptions(this.settings));
    this.watch(channel);
    return channel;
  }

  private watch(channel: Channel): void {
    const state = channel.getConnectivityState(false);
    clearTimeout(this.timer);
    if (state === State.SHUTDOWN) return;
    if (state === State.CONNECTING) {
      this.timer = setTimeout(() => this.replace(channel), this.settings.connectTimeoutMs).unref();
    }
    channel.watchConnectivityState(state, Infinity, () => {
      if (!this.closed && (this.channel as Channel | undefined) === channel) this.watch(channel);
    });
  }

  private replace(channel: Channel): void {
    if (this.closed || this.channel !== channel) return;
    this.channel = this.open();
    channel.close();
  }

  /** Begins to connect, and resolves to whether the connection is open before the time has passed or it failed. */
  async connect(timeoutMs: number, failureEnds: boolean): Promise<boolean> {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      if (this.closed) return false;
      const { channel } = this;
      const state = channel.getConnectivityState(true);
      if (state === State.READY) return true;
      if (state === State.SHUTDOWN || (failureEnds && state === State.TRANSIENT_FAILURE)) return false;
      const changed = await new Promise<boolean>((resolve) => {
        channel.watchConnectivityState(state, deadline, (error) => resolve(error === undefined));
      });
      if (!changed) return false;
    }
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    this.channel.close();
  }
}
