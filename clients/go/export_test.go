package gannet

import "time"

// SetSilence changes the time without a message after which streams are given up.
func SetSilence(c *Client, silence time.Duration) { c.engine.silence = silence }

// StreamConnections returns the number of connections of subscriptions and watches.
func StreamConnections(c *Client) int { return c.engine.streams.count() }

// OpenStreams returns the number of streams of subscriptions and watches that have not ended.
func OpenStreams(c *Client) int {
	c.engine.streams.mutex.Lock()
	defer c.engine.streams.mutex.Unlock()
	return c.engine.streams.open
}

// AgeNearCache moves the latest report of the changes of a cache into the past, as after a stop of the process.
func AgeNearCache(c *Client, cache string, age time.Duration) {
	c.engine.near.mutex.Lock()
	defer c.engine.near.mutex.Unlock()
	watch := c.engine.near.watches[cache]
	watch.heard = watch.heard.Add(-age)
}
